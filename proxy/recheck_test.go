package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// ticking sends a frame each second for five minutes and ends properly.
func ticking(_ int, w http.ResponseWriter, r *http.Request) error {
	sse(w)
	for i := range 300 {
		if say(w, datum("f"+itoa(i+1))) != nil || pause(r, time.Second) != nil {
			hangUp()
		}
	}
	return nil
}

// checkpoint is a site whose identity the test commands, with a run that ticks.
type checkpoint struct {
	*site
	identity *passports
	owner    testkit.Client
	started  *testkit.Answer
	run      string
}

func newCheckpoint(t *testing.T, o setup) *checkpoint {
	t.Helper()
	c := &checkpoint{identity: new(passports)}
	if o.identity == nil {
		o.identity = c.identity
	}
	o.config = append(o.config, generic)
	c.site = o.open(t, ticking)
	c.owner = traveller(c.Client, "home/owner", "Authorization", "Bearer all")
	c.started = c.owner.Do(t, startChat()).Want(http.StatusOK)
	c.run = c.started.Run()
	return c
}

// ends reads on in the background and tells how long that took, with how many
// events.
func ends(read func() int) (after func() (time.Duration, int)) {
	began := time.Now()
	type end struct {
		took time.Duration
		n    int
	}
	done := make(chan end, 1)
	go func() {
		n := read()
		done <- end{time.Since(began), n}
	}()
	return func() (time.Duration, int) {
		e := <-done
		return e.took, e.n
	}
}

// at lets time pass in a bubble.
func at(d time.Duration) { time.Sleep(d) }

// TestAReaderThatStaysIsDecidedAgain with the credentials of its request: one
// that may no longer ends within recheck, without a terminal frame, and resumes
// without a gap when it may again.
func TestAReaderThatStaysIsDecidedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCheckpoint(t, setup{})
		control, bare := c.owner.Resume(t, c.run, ""), c.owner.Do(t, own(c.run, ""))
		controlled := ends(func() int { return len(control.Rest()) })
		bared := ends(func() int { return len(bare.RestBroken()) })
		startedEnd := ends(func() int { return len(c.started.RestBroken()) })
		at(30 * time.Second)
		c.identity.change(func(p *passports) { p.revoked = true })
		took, n := controlled()
		if took != time.Minute || n < 60 || n > 61 {
			t.Errorf("with control events: ended after %v with %d events, want 1m0s", took, n)
		}
		if took, _ := bared(); took != time.Minute {
			t.Errorf("without control events: ended after %v, want 1m0s", took)
		}
		if took, _ := startedEnd(); took != time.Minute {
			t.Errorf("the client that started it: ended after %v, want 1m0s", took)
		}
		c.owner.Do(t, testkit.Resume(c.run, testkit.Cursor(c.run, n))).Problem(http.StatusUnauthorized, "token_invalid")
		c.identity.change(func(p *passports) { p.revoked = false })
		rest := c.owner.Resume(t, c.run, testkit.Cursor(c.run, n)).Rest()
		testkit.CheckIDs(t, c.run, n+1, rest)
		if len(rest) != 301-n {
			t.Errorf("got %d events after coming back, want %d and the end", len(rest), 301-n)
		}
	})
}

// TestTheApplicationTakesReadingBack: the owner too is asked about.
func TestTheApplicationTakesReadingBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		app := &officer{}
		word := make(chan int, 1)
		word <- http.StatusOK
		policy := asksApp(t, app)
		app.answer = func(string, string) int {
			status := <-word
			word <- status
			return status
		}
		c := newCheckpoint(t, setup{policy: policy})
		reader := c.owner.Resume(t, c.run, "")
		read := ends(func() int { return len(reader.Rest()) })
		start := ends(func() int { return len(c.started.RestBroken()) })
		at(90 * time.Second)
		<-word
		word <- http.StatusForbidden
		for name, end := range map[string]func() (time.Duration, int){"a reader": read, "the client that started it": start} {
			if took, _ := end(); took != 2*time.Minute {
				t.Errorf("%s ended after %v, want 2m0s", name, took)
			}
		}
	})
}

// TestAnExpiredTokenEndsItsReaders, and the answer to the start only if that is
// configured.
func TestAnExpiredTokenEndsItsReaders(t *testing.T) {
	for name, strict := range map[string]bool{"lenient": false, "strict": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				identity := &passports{expires: time.Now().Add(42 * time.Second)}
				c := newCheckpoint(t, setup{identity: identity, config: []configure{func(c *proxy.Config) { c.ExpiryStrict = strict }}})
				reader := c.owner.Resume(t, c.run, "")
				read := ends(func() int { return len(reader.Rest()) })
				start := ends(func() int {
					if strict {
						return len(c.started.RestBroken())
					}
					return len(c.started.Rest())
				})
				took, n := read()
				if took != 42*time.Second {
					t.Errorf("a reader ended after %v, want 42s", took)
				}
				identity.change(func(p *passports) { p.expires = time.Now().Add(time.Hour) })
				testkit.CheckIDs(t, c.run, n+1, c.owner.Resume(t, c.run, testkit.Cursor(c.run, n)).Take(2))
				want := 5 * time.Minute
				if strict {
					want = 42 * time.Second
				}
				if took, _ := start(); took != want {
					t.Errorf("the client that started it ended after %v, want %v", took, want)
				}
			})
		})
	}
}

// TestAReaderInDoubtSeesNothingNew while it cannot be told who may: it is kept
// alive, goes on where it was, or ends.
func TestAReaderInDoubtSeesNothingNew(t *testing.T) {
	for name, away := range map[string]time.Duration{"for a moment": 10 * time.Second, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newCheckpoint(t, setup{config: []configure{func(c *proxy.Config) { c.Keepalive = 5 * time.Second }}})
				listens(c.started)
				reader := c.owner.Resume(t, c.run, "")
				began := time.Now()
				seen := reader.Take(60)
				c.identity.change(func(p *passports) { p.down = true })
				time.AfterFunc(away, func() { c.identity.change(func(p *passports) { p.down = false }) })
				if away < 15*time.Second {
					seen = append(seen, reader.Take(30)...)
					testkit.CheckIDs(t, c.run, 1, seen)
					return
				}
				rest := reader.Rest()
				if took := time.Since(began); len(rest) > 1 || took != 75*time.Second {
					t.Errorf("got %d more events and an end after %v, want none and 1m15s", len(rest), took)
				}
			})
		})
	}
}

// TestWhoComesInDoubtComesAgain: an EventSource would not survive a 503.
func TestWhoComesInDoubtComesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCheckpoint(t, setup{})
		listens(c.started)
		c.identity.change(func(p *passports) { p.down = true })
		again := c.owner.Resume(t, c.run, "").Want(http.StatusOK)
		if body := string(again.Body()); !strings.HasPrefix(body, "retry: ") || strings.Contains(body, "data:") {
			t.Errorf("got %q, want a hint alone", body)
		}
		for _, ask := range []testkit.Ask{{Path: "/_runs/" + c.run}, asks(c.run, "", acceptJSON), own(c.run, ""), stopping(c.run, "")} {
			answer := c.owner.Do(t, ask)
			if answer.Header.Get("Retry-After") == "" || answer.Header.Get("Www-Authenticate") != "" {
				t.Errorf("%s: got %v", ask.Path, answer.Header)
			}
			answer.Problem(http.StatusServiceUnavailable, "store_unavailable")
		}
	})
}

// TestOtherRulesEndTheReadersOfTheOldOnes at once.
func TestOtherRulesEndTheReadersOfTheOldOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rules := make(chan struct{})
		c := newCheckpoint(t, setup{newRules: func() <-chan struct{} { return rules }})
		reader := c.owner.Resume(t, c.run, "")
		read := ends(func() int { return len(reader.Rest()) })
		start := ends(func() int { return len(c.started.RestBroken()) })
		at(10*time.Second + 500*time.Millisecond)
		close(rules)
		synctest.Wait()
		for name, end := range map[string]func() (time.Duration, int){"a reader": read, "the client that started it": start} {
			if took, n := end(); took != 10*time.Second+500*time.Millisecond || n != 11 {
				t.Errorf("%s ended after %v with %d events, want 10.5s and 11", name, took, n)
			}
		}
	})
}

// TestARepeatedStartIsAReadToo: the application that takes reading back is
// asked when a key leads to a run that exists.
func TestARepeatedStartIsAReadToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		app := &officer{}
		policy := asksApp(t, app)
		s := setup{identity: new(passports), policy: policy, config: []configure{generic}}.open(t, streams(data(2)...))
		all, none := traveller(s.Client, "home/owner", bearer("all")...), traveller(s.Client, "home/owner", bearer("none")...)
		all.Do(t, startChat().Key("k")).Want(http.StatusOK).Rest()
		all.Do(t, startChat().Key("k")).Want(http.StatusOK).Rest()
		none.Do(t, startChat().Key("k")).Problem(http.StatusNotFound, "run_not_found")
		if got := s.calls.Load(); got != 1 {
			t.Errorf("got %d calls, want one", got)
		}
		list := testkit.Decode[struct{ Runs []testkit.Record }](t, all.Do(t, testkit.Ask{Path: "/_runs"}).Body())
		empty := testkit.Decode[struct{ Runs []testkit.Record }](t, none.Do(t, testkit.Ask{Path: "/_runs"}).Body())
		if len(list.Runs) != 1 || len(empty.Runs) != 0 {
			t.Errorf("the lists have %d and %d runs, want 1 and 0", len(list.Runs), len(empty.Runs))
		}
	})
}

// TestSharedConversations: who may start and replace where others have a run.
func TestSharedConversations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		policy := authz.ClaimsPolicy{Read: "r", Write: "w"}
		s := setup{identity: new(passports), policy: policy, config: []configure{generic, func(c *proxy.Config) { c.Busy = runregistry.BusyReplace }}}.open(t, holds(data(1)...))
		owner, mate := traveller(s.Client, "home/owner"), traveller(s.Client, "home/mate")
		first := owner.Do(t, startChat()).Want(http.StatusOK)
		listens(first)
		mate.Do(t, next("mine")).Problem(http.StatusNotFound, "run_not_found")
		traveller(mate, "home/mate", claimsHeader, `{"r":["conv-1"]}`).Do(t, next("mine")).Problem(http.StatusNotFound, "run_not_found")
		traveller(mate, "away/mate", claimsHeader, `{"w":["*"]}`).Do(t, next("mine")).Want(http.StatusOK).Take(1)
		writer := traveller(mate, "home/mate", claimsHeader, `{"r":["conv-1"],"w":["conv-1"]}`)
		second := writer.Do(t, next("mine")).Want(http.StatusOK)
		second.Take(1)
		if got := writer.Active(t, "conv-1").Named(); got != second.Run() {
			t.Errorf("the conversation has the run %s, want the writer's", got)
		}
		synctest.Wait()
		if rec := owner.Snapshot(t, first.Run()); rec.State != "cancelled" {
			t.Errorf("the first run is %s, want cancelled", rec.State)
		}
		owner.Do(t, testkit.Ask{Path: "/_runs/" + second.Run()}).Problem(http.StatusNotFound, "run_not_found")
	})
}
