package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/browser"
)

// watchScript starts a run and watches it with a native EventSource; the
// promise "watched" resolves when the browser has given up for good.
const watchScript = `(async (base, prompt) => {
  const start = await fetch(base + "/v1/chat/completions", {
    method: "POST", credentials: "include", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({model: "m", stream: true, messages: [{role: "user", content: prompt}]}),
  });
  const run = start.headers.get("X-Run-Id");
  start.body.cancel();
  window.seen = {run, data: [], ids: [], opens: 0, errors: [], ends: 0, state: ""};
  window.watched = new Promise(resolve => {
    const source = new EventSource(base + "/_runs/" + run + "/events", {withCredentials: true});
    source.onopen = () => seen.opens++;
    source.onmessage = e => { seen.data.push(e.data); seen.ids.push(e.lastEventId); };
    source.addEventListener("run.end", e => { seen.ends++; seen.ids.push(e.lastEventId); seen.state = JSON.parse(e.data).state; });
    source.onerror = () => { seen.errors.push(source.readyState); if (source.readyState === EventSource.CLOSED) resolve(seen); };
  });
  return run;
})(%q, %q)`

// watched is what an EventSource saw. Errors are its ready states in error
// events: 0 when it will reconnect, 2 when it is closed.
type watched struct {
	Run    string
	Data   []string
	IDs    []string
	Opens  int
	Errors []int
	Ends   int
	State  string
}

// checkIDs fails the test unless the browser saw every number once, in order.
func (w *watched) checkIDs(t *testing.T) {
	t.Helper()
	for i, id := range w.IDs {
		if id != testkit.Cursor(w.Run, i+1) {
			t.Fatalf("event %d has id %q, want %q", i+1, id, testkit.Cursor(w.Run, i+1))
		}
	}
}

// statuses lists how GETs of a run's events were answered, and fails the test
// if there was a preflight.
func statuses(t *testing.T, g *testkit.Gateway, run string) []int {
	t.Helper()
	var out []int
	for _, a := range g.Log.Accesses("/_runs/" + run + "/events") {
		if a.Request.Method == http.MethodOptions {
			t.Error("the browser sent a preflight for the events of a run")
		}
		out = append(out, a.Status)
	}
	return out
}

// TestBrowserStopsByItselfOnTheDemoPage finishes a run under a native
// EventSource in the page of the demo: one reconnect, which gets 204, and no
// more.
func TestBrowserStopsByItselfOnTheDemoPage(t *testing.T) {
	t.Parallel()
	b := browser.Launch(t)
	g := testkit.Command(t, "agent-runs", "--demo", "--access-log", "--from", "http://127.0.0.1:{port}")
	page := b.Open(t, g.URL(""))
	var run string
	page.Eval(t, fmt.Sprintf(watchScript, "", "Use a tool: what is the weather in Lisbon?"), &run)
	var got watched
	page.Eval(t, "watched", &got)
	got.checkIDs(t)
	if got.State != "completed" || got.Ends != 1 || len(got.Data) == 0 || got.Data[len(got.Data)-1] != "[DONE]" {
		t.Errorf("got state %q, %d run.end and %d frames, want completed, 1 and all", got.State, got.Ends, len(got.Data))
	}
	if got.Opens != 1 || !slices.Equal(got.Errors, []int{0, 2}) {
		t.Errorf("source opened %d times with errors in states %v, want once, one reconnect, and closed", got.Opens, got.Errors)
	}
	testkit.Eventually(t, "both requests in the access log", func() bool { return len(statuses(t, g, run)) >= 2 })
	if got := statuses(t, g, run); !slices.Equal(got, []int{200, 204}) {
		t.Errorf("requests for the events got %v, want 200 and 204", got)
	}
}

// TestBrowserResumesAcrossOriginsWithoutAPreflight breaks the network under an
// EventSource of another origin: its reconnect carries our cursor, which is
// made of bytes that need no preflight.
func TestBrowserResumesAcrossOriginsWithoutAPreflight(t *testing.T) {
	t.Parallel()
	b := browser.Launch(t)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>app</title>"))
	}))
	defer app.Close()
	u := testkit.NewUpstream(t)
	gate := make(chan struct{})
	stage := u.Stage(caseScript(t, "27-retry-attaches", "upstream.jsonl").Gated(gate))
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(u.Addr(), "cors "+app.URL)}})
	network := testkit.NewCutter(t, g.URL(""))

	page := b.Open(t, app.URL)
	var run string
	page.Eval(t, fmt.Sprintf(watchScript, network.URL(), "go"), &run)
	page.Eval(t, `new Promise(done => { const look = setInterval(() => seen.data.length > 0 && (clearInterval(look), done()), 10); })`, nil)
	network.Cut()
	close(gate)
	stage.Call(t, 1).AwaitEnd(t)
	network.Restore()
	var got watched
	page.Eval(t, "watched", &got)
	got.checkIDs(t)
	if got.State != "completed" || len(got.Data) != 11 || got.Ends != 1 {
		t.Errorf("got %d frames and state %q, want 11 and completed", len(got.Data), got.State)
	}
	if got.Opens != 2 || !slices.Equal(got.Errors, []int{0, 0, 2}) {
		t.Errorf("source opened %d times with errors in states %v, want twice, then closed", got.Opens, got.Errors)
	}
	testkit.Eventually(t, "three requests in the access log", func() bool { return len(statuses(t, g, run)) >= 3 })
	if got := statuses(t, g, run); !slices.Equal(got, []int{200, 200, 204}) {
		t.Errorf("requests for the events got %v, want 200, 200 and 204", got)
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestDemoPageOutlivesItsConnection presses the buttons of the demo: ask, kill
// the connection, come back, and look from a second device.
func TestDemoPageOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	b := browser.Launch(t)
	g := testkit.Command(t, "agent-runs", "--demo", "--from", "http://127.0.0.1:{port}")
	page := b.Open(t, g.URL(""))
	until := func(p *browser.Page, condition string) {
		t.Helper()
		p.Eval(t, `new Promise(done => { const look = setInterval(() => (`+condition+`) && (clearInterval(look), done()), 20); })`, nil)
	}
	page.Eval(t, `document.querySelector("#suggestions [data-prompt*=tool]").click()`, nil)
	until(page, `Number(document.getElementById("seq").textContent) > 20`)
	page.Eval(t, `document.getElementById("gap").value = "2", document.getElementById("kill").click()`, nil)
	until(page, `document.getElementById("state").dataset.state === "completed"`)
	var shown struct {
		Text, Gaps, Duplicates, Calls, Reconnects, Link string
	}
	look := `(id => ({text: id("answer"), gaps: id("gaps"), duplicates: id("duplicates"), calls: id("calls"),
	  reconnects: id("reconnects"), link: document.getElementById("second").href}))(id => document.getElementById(id).textContent.trim())`
	until(page, `document.getElementById("reconnects").textContent !== "0"`)
	page.Eval(t, look, &shown)
	if shown.Gaps != "0" || shown.Duplicates != "0" || shown.Calls != "1" || !strings.Contains(shown.Text, "no tool ran") {
		t.Errorf("page shows %+v, want the whole answer without gap or duplicate from one call", shown)
	}
	second := b.Open(t, shown.Link)
	until(second, `document.getElementById("state").dataset.state === "completed"`)
	there := shown
	second.Eval(t, look, &there)
	if there.Text != shown.Text {
		t.Errorf("a second device shows %q, want %q", there.Text, shown.Text)
	}
}
