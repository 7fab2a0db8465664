package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/browser"
)

// otherOrigin is the page of an application on an origin of its own.
func otherOrigin(t *testing.T) string {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>app</title>")) // a browser that left sees nothing
	}))
	t.Cleanup(app.Close)
	return app.URL
}

// seenAcross is what a script of another origin got to see.
type seenAcross struct {
	Start, Retry, Rest, Refused, Missing, Record seenAnswer
	Plain, Cookies, Ticket                       string // how each EventSource ended
}

// seenAnswer is one answer. Failed is what fetch threw.
type seenAnswer struct {
	Status                    int
	Run, Conversation, Replay string
	Link, Type, Theirs        string
	Body, Failed              string
}

// acrossScript does all that a client does, from a page of another origin. It
// shows its token in a field, but for EventSource, which sends the cookie or a
// ticket.
const acrossScript = `(async (base, token) => {
  document.cookie = "access=" + token; // cookies do not know ports
  const ask = async (path, init) => {
    try {
      const a = await fetch(base + path, init);
      const h = name => a.headers.get(name) ?? "";
      return {status: a.status, run: h("X-Run-Id"), conversation: h("X-Conversation-Id"), replay: h("Idempotent-Replayed"), link: h("Link"),
        type: h("Content-Type"), theirs: h("X-Theirs"), body: await a.text(), failed: ""};
    } catch (e) { return {status: 0, failed: String(e)}; }
  };
  const watch = (url, withCredentials) => new Promise(done => {
    let got = "", source = new EventSource(url, {withCredentials});
    source.onmessage = e => got += "m";
    source.addEventListener("run.end", e => got += " " + JSON.parse(e.data).state);
    source.onerror = () => source.readyState === EventSource.CLOSED && done(got || "refused");
  });
  const key = {Authorization: "Bearer " + token};
  const start = (n, body) => ({method: "POST", headers: {...key, "Content-Type": "application/json", "Idempotency-Key": n, "X-Conversation-Id": "c-1"},
    body: JSON.stringify({model: "m", stream: true, messages: [{role: "user", content: body}]})});
  const chat = "/v1/chat/completions", seen = {};
  seen.start = await ask(chat, start("k-1", "go"));
  const run = seen.start.run || "run_unknown";
  seen.retry = await ask(chat, start("k-1", "go"));
  seen.rest = await ask("/_runs/" + run + "/events?control=off", {headers: {...key, "Last-Event-ID": run + ".1"}});
  seen.refused = await ask(chat, start("k-1", "another"));
  seen.missing = await ask("/_runs/run_x", {headers: key});
  seen.record = await ask("/_runs/" + run, {headers: key});
  const events = "/_runs/" + run + "/events";
  seen.cookies = await watch(base + events, true);
  seen.plain = await watch(base + events, false);
  const ticket = await ask("/_runs/" + run + "/ticket", {method: "POST", headers: key});
  seen.ticket = ticket.status === 201 ? await watch(new URL(JSON.parse(ticket.body).url, base).href, false) : "no ticket";
  return seen;
})(%q, %q)`

// across runs the script on a page of an origin, against a gateway with an
// allowed one, whose backend has a policy of its own.
func across(t *testing.T, allowed, page string) (seenAcross, *testkit.Stage) {
	t.Helper()
	u := testkit.NewUpstream(t)
	script := testkit.SSE(said("a"), said("b"), saidAll)
	theirs := testkit.Script{
		testkit.Header("Access-Control-Allow-Origin", "https://theirs.example"), testkit.Header("Access-Control-Expose-Headers", "X-Theirs"),
		testkit.Header("X-Theirs", "1"), testkit.Header("Access-Control-Allow-Credentials", "false"),
	}
	stage := u.Stage(append(theirs, script...))
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{
		"": testkit.Bare(u.Addr(), "cors "+allowed, "ticket 5m", "keepalive off", "identity jwt {\nissuer "+issuer+"\naudience chat\nkey HS256 "+canaryKey+"\ncookie access\n}"),
	}})
	var got seenAcross
	browser.Launch(t).Open(t, page).Eval(t, fmt.Sprintf(acrossScript, g.URL(""), signed(t, "ann", canaryKey, time.Hour)), &got)
	return got, stage
}

// TestAPageOfAnAllowedOriginDoesAllThatAClientDoes in a real browser, which
// reads our fields on streams and on refusals, and none that the backend
// exposes.
func TestAPageOfAnAllowedOriginDoesAllThatAClientDoes(t *testing.T) {
	t.Parallel()
	origin := otherOrigin(t)
	got, stage := across(t, origin, origin)
	for name, a := range map[string]seenAnswer{"start": got.Start, "retry": got.Retry, "re-attachment": got.Rest} {
		if a.Status != http.StatusOK || a.Run == "" || a.Run != got.Start.Run || a.Conversation != "c-1" || a.Link == "" || a.Theirs != "" {
			t.Errorf("%s: got %+v, want it with the ids of the run", name, a)
		}
	}
	if got.Record.Status != http.StatusOK || !strings.Contains(got.Record.Body, got.Start.Run) {
		t.Errorf("record: got %+v, want that of the run", got.Record)
	}
	if got.Retry.Replay == "" || got.Start.Replay != "" {
		t.Errorf("got marks %q and %q, want one on the retry alone", got.Start.Replay, got.Retry.Replay)
	}
	if got.Refused.Status != http.StatusUnprocessableEntity || got.Missing.Status != http.StatusNotFound || got.Missing.Type != "application/problem+json" {
		t.Errorf("got %+v and %+v, want problems that can be read", got.Refused, got.Missing)
	}
	if got.Cookies != "mmm completed" || got.Plain != "refused" || got.Ticket != "mmm completed" {
		t.Errorf("got EventSources %q with the cookie, %q without, %q with a ticket", got.Cookies, got.Plain, got.Ticket)
	}
	if n := stage.Starts(); n != 1 {
		t.Errorf("got %d calls of the backend, want 1", n)
	}
}

// TestAPageOfAnotherOriginReadsNothing, and starts nothing.
func TestAPageOfAnotherOriginReadsNothing(t *testing.T) {
	t.Parallel()
	got, stage := across(t, "https://app.example", otherOrigin(t))
	for name, a := range map[string]seenAnswer{
		"start": got.Start, "retry": got.Retry, "re-attachment": got.Rest, "refusal": got.Refused, "missing": got.Missing, "record": got.Record,
	} {
		if a.Failed == "" {
			t.Errorf("%s: got %+v, want nothing to be seen", name, a)
		}
	}
	if got.Cookies != "refused" || got.Plain != "refused" || got.Ticket != "no ticket" {
		t.Errorf("got EventSources %q, %q and %q, want all refused", got.Cookies, got.Plain, got.Ticket)
	}
	for _, call := range stage.Calls() {
		if call.Method == http.MethodPost {
			t.Errorf("the backend got %s %s, want no start", call.Method, call.URI)
		}
	}
}
