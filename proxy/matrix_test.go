package proxy_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// world is a site with one run of home/owner in each state.
type world struct {
	*site
	store *faultstore.Store
	app   *officer
	runs  map[string]runregistry.RunID // by state
}

// rights are what a caller of the matrix has.
type rights struct {
	client      func(testkit.Client) testkit.Client
	read, write bool
	nobody      bool // 401, whatever the id
}

func comes(passport string, headers ...string) func(testkit.Client) testkit.Client {
	return func(c testkit.Client) testkit.Client { return traveller(c, passport, headers...) }
}

// bearer is an Authorization for the application that is asked.
func bearer(word string) []string { return []string{"Authorization", "Bearer " + word} }

// regime is one acl with the callers that it is tried with.
type regime struct {
	policy  func(t *testing.T, app *officer) authz.Policy
	callers map[string]rights
}

var regimes = map[string]regime{
	"owner": {
		policy: func(*testing.T, *officer) authz.Policy { return authz.OwnerPolicy{} },
		callers: map[string]rights{
			"owner":         {client: comes("home/owner"), read: true, write: true},
			"same tenant":   {client: comes("home/mate", claimsHeader, `{"r":["*"],"w":["*"]}`)},
			"other tenant":  {client: comes("away/owner")},
			"anonymous":     {client: comes("")},
			"expired":       {client: comes("expired/owner"), nobody: true},
			"revoked":       {client: comes("home/owner-after-logout")},
			"without claim": {client: comes("home/mate")},
		},
	},
	"claims": {
		policy: func(*testing.T, *officer) authz.Policy { return authz.ClaimsPolicy{Read: "r", Write: "w"} },
		callers: map[string]rights{
			"owner":        {client: comes("home/owner"), read: true, write: true},
			"writer":       {client: comes("home/mate", claimsHeader, `{"r":["*"],"w":["*"]}`), read: true, write: true},
			"reader":       {client: comes("home/mate", claimsHeader, `{"r":["*"],"w":[]}`), read: true},
			"same tenant":  {client: comes("home/mate")},
			"revoked":      {client: comes("home/mate", claimsHeader, `{"r":["conv-other"],"w":"conv-other"}`)},
			"other tenant": {client: comes("away/owner", claimsHeader, `{"r":["*"],"w":["*"]}`)},
			"anonymous":    {client: comes("", claimsHeader, `{"r":["*"],"w":["*"]}`)},
			"expired":      {client: comes("expired/owner"), nobody: true},
		},
	},
	"backend": {
		policy: asksApp,
		callers: map[string]rights{
			"owner":        {client: comes("home/owner", bearer("all")...), read: true, write: true},
			"writer":       {client: comes("home/mate", bearer("all")...), read: true, write: true},
			"reader":       {client: comes("home/mate", bearer("read")...), read: true},
			"same tenant":  {client: comes("home/mate", bearer("none")...)},
			"revoked":      {client: comes("home/owner", bearer("none")...)},
			"other tenant": {client: comes("away/owner", bearer("all")...)},
			"anonymous":    {client: comes("", bearer("all")...)},
			"expired":      {client: comes("expired/owner", bearer("all")...), nobody: true},
		},
	},
}

func asksApp(t *testing.T, app *officer) authz.Policy {
	t.Helper()
	app.answer = func(authorization, path string) int {
		word := strings.TrimPrefix(authorization, "Bearer ")
		if word == "all" || word == "read" && strings.HasPrefix(path, "/read/") {
			return http.StatusNoContent
		}
		return http.StatusForbidden
	}
	p, err := authz.NewBackendPolicy(authz.BackendRules{
		Read:  "http://app.test/read/{conversation_id}/{run_id}",
		Write: "http://app.test/write/{conversation_id}/{run_id}", Cache: 5 * time.Second, Transport: app,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newWorld makes a run in each state.
func newWorld(t *testing.T, r regime, change ...configure) *world {
	t.Helper()
	w := &world{app: new(officer), runs: make(map[string]runregistry.RunID)}
	policy := r.policy(t, w.app)
	o := setup{
		identity: new(passports), policy: policy, config: append(change, generic),
		store: func(s runregistry.Store) runregistry.Store {
			w.store = faultstore.Wrap(s)
			return w.store
		},
	}
	w.site = o.open(t, answers(http.StatusNotFound, "text/plain", "none"))
	w.Header.Del(testkit.SubjectHeader)
	for _, state := range matrixStates {
		w.make(t, state, policy.Shared())
	}
	time.Sleep(time.Second) // the frames of one of them expire
	return w
}

var matrixStates = []string{"queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "uncertain", "deleted", "expired"}

// make brings a run into a state, as its owner would.
func (w *world) make(t *testing.T, state string, shared bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	subject := runregistry.Subject{Realm: "pipe.test", Tenant: "home", Issuer: "passport", Sub: "owner"}
	scope := runregistry.SubjectScope(subject)
	if shared {
		scope = runregistry.TenantScope(subject)
	}
	a := &runregistry.Admission{
		Run: runregistry.NewRunID(runregistry.PartitionOf(string(scope))), Subject: subject, Scope: scope, Route: "default",
		Conversation: runregistry.ConversationID("conv-" + state), Named: true, Dialect: "generic",
		Retention: runregistry.Retention{Frames: 1 << 49, Record: 1 << 50, Key: 1 << 50},
	}
	if state == "expired" {
		a.Retention.Frames = 1
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
	}
	d, err := w.store.Admit(ctx, a)
	must(err)
	d.Watch.Close()
	w.runs[state] = d.Record.ID
	if state == "queued" {
		return
	}
	_, err = w.store.Intend(ctx, d.Lease)
	must(err)
	p := &runregistry.Progress{
		Response: &runregistry.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {acceptSSE}}, Stream: true, Kept: true},
		Format:   runregistry.FormatSSE, Dialect: "generic", UpstreamID: "up-" + state,
	}
	if state == "waiting" {
		p.State = runregistry.Waiting
	}
	_, err = w.store.Append(ctx, d.Lease, &runregistry.Batch{Frames: [][]byte{[]byte("data: secret\n\n")}, Progress: p})
	must(err)
	if state == "cancelling" || state == "cancelled" {
		_, err = w.store.Stop(ctx, d.Record.ID, "")
		must(err)
	}
	ends := map[string]runregistry.State{
		"completed": runregistry.Completed, "failed": runregistry.Failed, "cancelled": runregistry.Cancelled,
		"uncertain": runregistry.Uncertain, "deleted": runregistry.Completed, "expired": runregistry.Completed,
	}
	if end, ends := ends[state]; ends {
		_, err = w.store.Settle(ctx, d.Lease, &runregistry.Settlement{State: end})
		must(err)
	}
	if state == "deleted" {
		must(w.store.Delete(ctx, d.Record.ID))
	}
}

// door is one way to a run: by its id, or by its conversation.
type door struct {
	write bool
	ask   func(run, conversation string) testkit.Ask
	// oneID tells that a malformed id fits too.
	oneID bool
}

var doors = map[string]door{
	"record":        {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Ask{Path: "/_runs/" + run} }},
	"head":          {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Ask{Method: http.MethodHead, Path: "/_runs/" + run} }},
	"events":        {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Resume(run, "") }},
	"events 1":      {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Resume(run, testkit.Cursor(run, 1)) }},
	"events 999999": {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Resume(run, testkit.Cursor(run, 999999)) }},
	"events abc":    {oneID: true, ask: func(run, _ string) testkit.Ask { return testkit.Resume(run, "abc") }},
	"events own":    {oneID: true, ask: func(run, _ string) testkit.Ask { return own(run, "") }},
	"events page":   {oneID: true, ask: func(run, _ string) testkit.Ask { return asks(run, "", acceptJSON) }},
	"events lines":  {oneID: true, ask: func(run, _ string) testkit.Ask { return asks(run, "", acceptNDJSON) }},
	"ticket": {oneID: true, ask: func(run, _ string) testkit.Ask {
		return testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/ticket"}
	}},
	"cancel":       {write: true, oneID: true, ask: func(run, _ string) testkit.Ask { return stopping(run, "") }},
	"delete":       {write: true, oneID: true, ask: func(run, _ string) testkit.Ask { return deleting(run) }},
	"delete force": {write: true, oneID: true, ask: func(run, _ string) testkit.Ask { return deleting(run).Query("force", "true") }},
	"steer": {write: true, oneID: true, ask: func(run, _ string) testkit.Ask {
		return testkit.Ask{Path: "/_runs/" + run + "/steer", Body: `{"a":1}`}.Key("k")
	}},
	"cursor on any path": {ask: func(run, _ string) testkit.Ask {
		return testkit.Ask{Path: "/chat"}.With("Last-Event-ID", testkit.Cursor(run, 0))
	}},
	"cursor in the query": {ask: func(run, _ string) testkit.Ask {
		return testkit.Ask{Path: "/chat?lastEventId=" + testkit.Cursor(run, 0)}
	}},
	"cursor of a start": {ask: func(run, _ string) testkit.Ask {
		return testkit.Chat("conv-fresh", "hi").With("Last-Event-ID", testkit.Cursor(run, 0))
	}},
	"active":        {ask: func(_, c string) testkit.Ask { return testkit.Ask{Path: "/_runs/active?conversation_id=" + c} }},
	"active events": {ask: func(_, c string) testkit.Ask { return testkit.Ask{Path: "/_runs/active/events?conversation_id=" + c} }},
	"active events from a cursor": {ask: func(run, c string) testkit.Ask {
		return testkit.Ask{Path: "/_runs/active/events?conversation_id=" + c}.With("Last-Event-ID", testkit.Cursor(run, 0))
	}},
	"active cancel": {write: true, ask: func(_, c string) testkit.Ask {
		return testkit.Ask{Method: http.MethodPost, Path: "/_runs/active/cancel?conversation_id=" + c}
	}},
	"resume path": {ask: func(_, c string) testkit.Ask { return testkit.Ask{Path: "/api/chat/" + c + "/stream"} }},
	"resume path delete": {write: true, ask: func(_, c string) testkit.Ask {
		return testkit.Ask{Method: http.MethodDelete, Path: "/api/chat/" + c + "/stream"}
	}},
	"upstream's run": {ask: func(_, c string) testkit.Ask {
		return testkit.Ask{Path: "/threads/t/runs/" + strings.Replace(c, "conv-", "up-", 1) + "/stream"}
	}},
}

// seen is everything that a denied caller can tell, and what it cost.
type seen struct {
	status     int
	head, body string
	stored     string // the store's calls
	asked      int
	passed     int64
}

// look asks and takes stock.
func (w *world) look(t *testing.T, c testkit.Client, a testkit.Ask) seen {
	t.Helper()
	before, asked, passed := w.store.AllCalls(), w.app.asked.Load(), w.calls.Load()
	answer := c.Do(t, a)
	body := string(answer.Body())
	answer.Header.Del("Date")
	var head strings.Builder
	for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
		fmt.Fprintf(&head, "%s: %q\n", name, answer.Header[name])
	}
	return seen{
		status: answer.Status, head: head.String(), body: body,
		stored: callsSince(w.store, before), asked: int(w.app.asked.Load() - asked), passed: w.calls.Load() - passed,
	}
}

// callsSince names the calls that a store got, each with its number.
func callsSince(s *faultstore.Store, before map[faultstore.Call]int) string {
	after := s.AllCalls()
	var made strings.Builder
	for _, c := range slices.Sorted(maps.Keys(after)) {
		if n := after[c] - before[c]; n > 0 {
			fmt.Fprintf(&made, " %s:%d", c, n)
		}
	}
	return made.String()
}

// TestCase55ForeignAndUnknownLookTheSame tries every caller at every door to a
// run in every state, under every acl. What a caller may not have is answered
// like what never was: the same bytes, by the same calls of the store, and as
// many questions to the application. Clocks are not compared: work is counted.
func TestCase55ForeignAndUnknownLookTheSame(t *testing.T) {
	for name, r := range regimes {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, r, func(c *proxy.Config) { c.CancelDeadline = time.Second })
				before := w.revisions(t)
				for who, can := range r.callers {
					for where, d := range doors {
						if can.read && !d.write || can.write {
							continue
						}
						w.denied(t, who+" at "+where, can, d)
					}
				}
				if after := w.revisions(t); !maps.Equal(before, after) {
					t.Errorf("denied callers changed runs: got revisions %v, want %v", after, before)
				}
			})
		})
	}
}

// denied compares all runs with one that never was.
func (w *world) denied(t *testing.T, what string, can rights, d door) {
	t.Helper()
	time.Sleep(time.Minute) // what the application said is forgotten: it may be remembered for each id alike
	c := can.client(w.Client)
	never := string(runregistry.NewRunID(0))
	want := w.look(t, c, d.ask(never, "conv-never"))
	if can.nobody != (want.status == http.StatusUnauthorized) || strings.Contains(want.body, never) {
		t.Errorf("%s: got %+v for an unknown run", what, want)
	}
	if d.oneID && !can.nobody && want.status != http.StatusNotFound {
		t.Errorf("%s: got status %d, want 404", what, want.status)
	}
	for state, run := range w.runs {
		if got := w.look(t, c, d.ask(string(run), "conv-"+state)); got != want {
			t.Errorf("%s: a run that is %s got\n%+v, an unknown one\n%+v", what, state, got, want)
		}
	}
	if !d.oneID {
		return
	}
	for _, malformed := range []string{"run_x", "nonsense", never + "0", strings.ToUpper(never)} {
		if got := w.look(t, c, d.ask(malformed, "")); got != want {
			t.Errorf("%s: the malformed id %s got\n%+v, an unknown one\n%+v", what, malformed, got, want)
		}
	}
}

// revisions are the versions of all records.
func (w *world) revisions(t *testing.T) map[string]uint64 {
	t.Helper()
	all := make(map[string]uint64)
	for state, run := range w.runs {
		if rec, err := w.store.Load(context.WithoutCancel(t.Context()), run); err == nil {
			all[state] = rec.Revision
		}
	}
	return all
}

// TestWhoMayIsAnswered: the other cells of the matrix.
func TestWhoMayIsAnswered(t *testing.T) {
	for name, r := range regimes {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, r)
				for who, can := range r.callers {
					c := can.client(w.Client)
					for state, run := range w.runs {
						if !can.read || state == "deleted" {
							continue
						}
						if got := w.look(t, c, testkit.Ask{Path: "/_runs/" + string(run)}); got.status != http.StatusOK {
							t.Errorf("%s: the record of a run that is %s: got %d %s", who, state, got.status, got.body)
						}
						page := w.look(t, c, asks(string(run), "", acceptJSON))
						if page.status != http.StatusOK || state == "completed" && !strings.Contains(page.body, "secret") {
							t.Errorf("%s: the events of a run that is %s: got %d %s", who, state, page.status, page.body)
						}
					}
					if can.read {
						if got := c.Active(t, "conv-running"); got.Named() != string(w.runs["running"]) {
							t.Errorf("%s: got %+v for the conversation of the running one", who, got)
						}
					}
				}
				writer := r.callers["owner"]
				if mate, ok := r.callers["writer"]; ok {
					writer = mate
				}
				if got := writer.client(w.Client).Stop(t, string(w.runs["queued"])); got.State != "cancelled" {
					t.Errorf("got %s after a Stop, want cancelled", got.State)
				}
				writer.client(w.Client).Do(t, deleting(string(w.runs["failed"]))).Want(http.StatusNoContent)
			})
		})
	}
}
