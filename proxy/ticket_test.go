package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// ticketAnswer is what asking for a ticket gets.
type ticketAnswer struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func ticketKey() ([]byte, error) { return []byte(strings.Repeat("k", authz.MinSecret)), nil }

func ticketed(life time.Duration) setup { return setup{tickets: authz.NewTickets(ticketKey, life)} }

func ticketFor(run string) testkit.Ask {
	return testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/ticket"}
}

// ticketOf asks for a ticket and returns its address.
func ticketOf(t *testing.T, c testkit.Client, run string) ticketAnswer {
	t.Helper()
	a := c.Do(t, ticketFor(run)).Want(http.StatusCreated)
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("a ticket came with %v", a.Header)
	}
	return testkit.Decode[ticketAnswer](t, a.Body())
}

// TestATicketReadsOneRunWithoutCredentials, as often as it is used.
func TestATicketReadsOneRunWithoutCredentials(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCheckpoint(t, ticketed(5*time.Minute))
		listens(c.started)
		ticket := ticketOf(t, c.owner, c.run)
		if want := time.Now().Add(5 * time.Minute); !ticket.ExpiresAt.Equal(want.Truncate(time.Millisecond)) {
			t.Errorf("it expires at %v, want %v", ticket.ExpiresAt, want)
		}
		nobody := traveller(c.Client, "")
		for range 2 {
			again := nobody.Do(t, testkit.Ask{Path: ticket.URL}.With("Accept", acceptSSE)).Want(http.StatusOK)
			if again.Header.Get("Cache-Control") == "" || again.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("got %v", again.Header)
			}
			testkit.CheckIDs(t, c.run, 1, again.Take(3))
		}
		testkit.CheckIDs(t, c.run, 3, nobody.Do(t, testkit.Ask{Path: ticket.URL}.With("Last-Event-ID", testkit.Cursor(c.run, 2))).Take(1))
		record := strings.Replace(ticket.URL, "/events?", "?", 1)
		if rec := testkit.Decode[testkit.Record](t, nobody.Do(t, testkit.Ask{Path: record}).Want(http.StatusOK).Body()); rec.RunID != c.run {
			t.Errorf("got %+v", rec)
		}
		if log := c.log.String(); strings.Contains(log, ticketText(t, ticket)) {
			t.Errorf("the log has the ticket: %s", log)
		}
	})
}

func ticketText(t *testing.T, a ticketAnswer) string {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil || u.Query().Get("ticket") == "" {
		t.Fatalf("got the address %q and %v, want one with a ticket", a.URL, err)
	}
	return u.Query().Get("ticket")
}

// TestATicketIsGoodForNothingElse: not for another verb, run, realm or time, and
// not when it was changed.
func TestATicketIsGoodForNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCheckpoint(t, ticketed(time.Hour)) // which is cut to 15 minutes
		listens(c.started)
		other := c.owner.Do(t, testkit.Chat("conv-2", "x"))
		listens(other)
		text := ticketText(t, ticketOf(t, c.owner, c.run))
		nobody := traveller(c.Client, "")
		run := "/_runs/" + c.run
		for _, ask := range []testkit.Ask{
			{Method: http.MethodPost, Path: run + "/cancel"},
			{Method: http.MethodDelete, Path: run},
			{Method: http.MethodPost, Path: run + "/ticket"},
			{Path: "/_runs"},
			{Path: "/_runs/active?conversation_id=conv-1"},
			{Path: "/_runs/active/events?conversation_id=conv-1"},
			{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=conv-1"},
		} {
			for _, client := range []testkit.Client{nobody, c.owner} {
				client.Do(t, ask.Query("ticket", text)).Problem(http.StatusForbidden, "insufficient_scope")
			}
		}
		changed := []byte(text)
		changed[len(changed)/2] ^= 1
		for name, ask := range map[string]testkit.Ask{
			"another run": testkit.Ask{Path: "/_runs/" + other.Run() + "/events"}.Query("ticket", text),
			"changed":     testkit.Ask{Path: run}.Query("ticket", string(changed)),
			"empty":       testkit.Ask{Path: run}.Query("ticket", ""),
			"twice":       testkit.Ask{Path: run}.Query("ticket", text).Query("ticket", text),
			"a cursor":    testkit.Ask{Path: run}.Query("ticket", testkit.Cursor(c.run, 1)),
		} {
			answer := nobody.Do(t, ask)
			t.Log(name)
			answer.Problem(http.StatusUnauthorized, "token_invalid")
		}
		time.Sleep(15*time.Minute - time.Second)
		nobody.Do(t, testkit.Ask{Path: run}.Query("ticket", text)).Want(http.StatusOK)
		time.Sleep(time.Second)
		nobody.Do(t, testkit.Ask{Path: run}.Query("ticket", text)).Problem(http.StatusUnauthorized, "token_invalid")
	})
}

// TestATicketEndsWithItsTokenAndItsRun, and ends the readers that it let in.
func TestATicketEndsWithItsTokenAndItsRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := ticketed(5 * time.Minute)
		o.identity = &passports{expires: time.Now().Add(90 * time.Second)}
		c := newCheckpoint(t, o)
		listens(c.started)
		ticket := ticketOf(t, c.owner, c.run)
		if want := time.Now().Add(90 * time.Second); !ticket.ExpiresAt.Equal(want.Truncate(time.Millisecond)) {
			t.Errorf("it expires at %v, want with its token at %v", ticket.ExpiresAt, want)
		}
		reader := traveller(c.Client, "").Do(t, testkit.Ask{Path: ticket.URL}.With("Accept", acceptSSE))
		read := ends(func() int { return len(reader.Rest()) })
		if took, _ := read(); took != 90*time.Second {
			t.Errorf("a reader ended after %v, want 1m30s", took)
		}
	})
	inBubble(t, func(t *testing.T) {
		o := ticketed(5 * time.Minute)
		o.identity, o.config = new(passports), []configure{generic}
		s := o.open(t, streams(data(2)...))
		owner := traveller(s.Client, "home/owner")
		run := s.With(passportHeader, "home/owner").Do(t, startChat())
		run.Rest()
		ticket := ticketOf(t, owner, run.Run())
		read := testkit.Ask{Path: ticket.URL}.With("Accept", acceptSSE)
		traveller(s.Client, "").Do(t, read).Want(http.StatusOK).Rest()
		owner.Do(t, deleting(run.Run())).Want(http.StatusNoContent)
		traveller(s.Client, "").Do(t, read).Problem(http.StatusNotFound, "run_not_found")
	})
}

// TestATicketIsDecidedByTheACL of its use: what the token listed when it was
// made counts, under the claim that counts then.
func TestATicketIsDecidedByTheACL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := ticketed(5 * time.Minute)
		o.policy = authz.ClaimsPolicy{Read: "r.list", Write: "w"}
		c := newCheckpoint(t, o)
		listens(c.started)
		mate := traveller(c.Client, "home/mate", claimsHeader, `{"r.list":["*"]}`)
		ticket := ticketOf(t, mate, c.run)
		testkit.CheckIDs(t, c.run, 1, traveller(c.Client, "").Do(t, testkit.Ask{Path: ticket.URL}.With("Accept", acceptSSE)).Want(http.StatusOK).Take(2))
		traveller(c.Client, "home/mate").Do(t, ticketFor(c.run)).Problem(http.StatusNotFound, "run_not_found")
		stranger := authz.Caller{Subject: authz.Subject{Tenant: "home", Issuer: "passport", Sub: "mate"}, Known: true}
		text, _, err := authz.NewTickets(ticketKey, time.Minute).Issue(t.Context(), stranger, "pipe.test/"+c.run, nil)
		if err != nil {
			t.Fatal(err)
		}
		traveller(c.Client, "").Do(t, testkit.Ask{Path: "/_runs/" + c.run}.Query("ticket", text)).Problem(http.StatusNotFound, "run_not_found")
	})
}

// TestTicketsAreOffUnlessAskedFor: then their resource does not exist, and a
// query member of that name means nothing.
func TestTicketsAreOffUnlessAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCheckpoint(t, setup{})
		listens(c.started)
		c.owner.Do(t, ticketFor(c.run)).Problem(http.StatusNotFound, "run_not_found")
		c.owner.Do(t, testkit.Ask{Path: "/_runs/" + c.run + "/ticket"}).Problem(http.StatusNotFound, "run_not_found")
		c.owner.Do(t, testkit.Ask{Path: "/_runs/" + c.run}.Query("ticket", "x")).Want(http.StatusOK)
	})
}

// TestTicketsAreNotGivenToOtherSites: the browser would add its cookies.
func TestTicketsAreNotGivenToOtherSites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := ticketed(time.Minute).open(t, holds(data(1)...))
		started := s.Do(t, startChat())
		listens(started)
		s.Do(t, ticketFor(started.Run()).With("Sec-Fetch-Site", "cross-site")).Problem(http.StatusForbidden, "csrf_rejected")
	})
}
