package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

var (
	owner = authz.Subject{Tenant: "t", Issuer: "i", Sub: "owner"}
	mate  = authz.Subject{Tenant: "t", Issuer: "i", Sub: "mate"}
)

func may(t *testing.T, p authz.Policy, a authz.Ask) bool {
	t.Helper()
	if a.Request == nil {
		a.Request = request("Cookie: sid=1")
	}
	ok, err := p.May(t.Context(), a)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	return ok
}

func TestOwnersMay(t *testing.T) {
	p := authz.OwnerPolicy{}
	for _, verb := range []authz.Verb{authz.Read, authz.Write} {
		mine := authz.Ask{Verb: verb, Caller: authz.Caller{Subject: owner, Known: true}, Owner: owner}
		theirs := authz.Ask{Verb: verb, Caller: authz.Caller{Subject: mate, Known: true}, Owner: owner}
		if !may(t, p, mine) || may(t, p, theirs) || may(t, p, authz.Ask{Verb: verb}) {
			t.Errorf("verb %d: want the owner alone", verb)
		}
	}
	if !may(t, p, authz.Ask{Verb: authz.Start}) {
		t.Error("want that everybody starts")
	}
}

func TestClaimsLetIn(t *testing.T) {
	p := authz.ClaimsPolicy{Read: "r", Write: "w"}
	caller := func(s authz.Subject, text string) authz.Caller {
		return authz.Caller{Subject: s, Known: true, Claims: claims(t, text)}
	}
	for name, row := range map[string]struct {
		caller             authz.Caller
		read, write, start bool
	}{
		"owner":           {caller(owner, `{}`), true, true, true},
		"listed":          {caller(mate, `{"r":["c"],"w":"b c"}`), true, true, true},
		"listed, read":    {caller(mate, `{"r":["c"]}`), true, false, false},
		"all":             {caller(mate, `{"r":"*"}`), true, false, false},
		"another":         {caller(mate, `{"r":["C","c2"],"w":["d"]}`), false, false, false},
		"a pattern":       {caller(mate, `{"r":["c*"],"w":["?"]}`), false, false, false},
		"no claims":       {authz.Caller{Subject: mate, Known: true}, false, false, false},
		"nobody":          {authz.Caller{Claims: claims(t, `{"r":"*","w":"*"}`)}, false, false, false},
		"other tenant":    {caller(authz.Subject{Tenant: "u", Issuer: "i", Sub: "owner"}, `{"r":"*","w":"*"}`), false, false, false},
		"no tenant":       {caller(authz.Subject{Issuer: "i", Sub: "owner"}, `{"r":"*","w":"*"}`), false, false, false},
		"write, not read": {caller(mate, `{"w":["c"]}`), false, true, true},
	} {
		for verb, want := range map[authz.Verb]bool{authz.Read: row.read, authz.Write: row.write, authz.Start: row.start} {
			if got := may(t, p, authz.Ask{Verb: verb, Caller: row.caller, Conversation: "c", Owner: owner}); got != want {
				t.Errorf("%s, verb %d: got %t, want %t", name, verb, got, want)
			}
		}
		if row.caller.Known && !may(t, p, authz.Ask{Verb: authz.Start, Caller: row.caller, Conversation: "c"}) {
			t.Errorf("%s: want a start in a conversation without a run", name)
		}
	}
}

func backendPolicy(t *testing.T, app *application, change func(*authz.BackendRules)) *authz.BackendPolicy {
	t.Helper()
	o := authz.BackendRules{Read: "https://app.test/r/{conversation_id}/{run_id}?c={conversation_id}", Write: "https://app.test/w/{conversation_id}", Cache: 5 * time.Second, Transport: app}
	if change != nil {
		change(&o)
	}
	p, err := authz.NewBackendPolicy(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheApplicationLetsIn(t *testing.T) {
	for status, want := range map[int]bool{200: true, 204: true, 401: false, 403: false, 404: false} {
		p := backendPolicy(t, saying(status, ""), nil)
		if got := may(t, p, authz.Ask{Verb: authz.Read, Conversation: "c", Run: "r"}); got != want {
			t.Errorf("status %d: got %t, want %t", status, got, want)
		}
	}
	for _, status := range []int{302, 400, 429, 500, 503} {
		p := backendPolicy(t, saying(status, ""), nil)
		if ok, err := p.May(t.Context(), authz.Ask{Verb: authz.Write, Request: request("Cookie: sid=1")}); ok || !errors.Is(err, authz.ErrUnavailable) {
			t.Errorf("status %d: got %t and %v, want unavailable", status, ok, err)
		}
	}
}

// TestIdsStayInTheirPlace in the URL that is asked, whatever is in them.
func TestIdsStayInTheirPlace(t *testing.T) {
	var got string
	app := &application{answer: func(r *http.Request) *http.Response {
		got = r.URL.String()
		return response(http.StatusOK, "")
	}}
	p := backendPolicy(t, app, nil)
	for conversation, want := range map[string]string{
		"conv-1":      "https://app.test/r/conv-1/run_1?c=conv-1",
		"a:b@c~d":     "https://app.test/r/a:b@c~d/run_1?c=a%3Ab%40c~d",
		"../../admin": "https://app.test/r/..%2F..%2Fadmin/run_1?c=..%2F..%2Fadmin",
		"x?a=b&c#d":   "https://app.test/r/x%3Fa=b&c%23d/run_1?c=x%3Fa%3Db%26c%23d",
		"{run_id}":    "https://app.test/r/%7Brun_id%7D/run_1?c=%7Brun_id%7D",
	} {
		if may(t, p, authz.Ask{Verb: authz.Read, Conversation: conversation, Run: "run_1"}); got != want {
			t.Errorf("%s: asked %s, want %s", conversation, got, want)
		}
	}
}

// TestAYesIsRememberedAndANoIsNot: what does not exist is asked about each time,
// so what is denied must be.
func TestAYesIsRememberedAndANoIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusOK
		app := &application{answer: func(*http.Request) *http.Response { return response(status, "") }}
		p := backendPolicy(t, app, func(o *authz.BackendRules) { o.Write = o.Read })
		asked := func(what string, a authz.Ask, want int64) {
			t.Helper()
			before := app.asked.Load()
			may(t, p, a)
			if got := app.asked.Load() - before; got != want {
				t.Errorf("%s: asked %d times, want %d", what, got, want)
			}
		}
		read := authz.Ask{Verb: authz.Read, Conversation: "c", Run: "r"}
		asked("first", read, 1)
		asked("again", read, 0)
		asked("with another credential", authz.Ask{Verb: authz.Read, Conversation: "c", Run: "r", Request: request("Cookie: sid=2")}, 1)
		asked("another right at the same address", authz.Ask{Verb: authz.Write, Conversation: "c", Run: "r"}, 1)
		asked("another conversation", authz.Ask{Verb: authz.Read, Conversation: "d", Run: "r"}, 1)
		time.Sleep(5 * time.Second)
		status = http.StatusForbidden
		asked("after its time", read, 1)
		asked("denied, again", read, 1)
		asked("a start without a rule", authz.Ask{Verb: authz.Start, Conversation: "c"}, 0)
	})
}

func TestRulesThatAreWrongAreNamed(t *testing.T) {
	_, err := authz.NewBackendPolicy(authz.BackendRules{Read: "https://u:hunter2@app.test/", Start: "https://app.test/{run_id}", Cache: -1})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want errors without the password", err)
	}
	for _, part := range []string{"read: ", "write: ", "start: ", "cache: "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want something about %q", err, part)
		}
	}
}
