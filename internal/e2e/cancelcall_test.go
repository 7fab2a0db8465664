package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestACancelCallGetsTheCredentialsOfTheProxy: the call goes through the same
// reverse_proxy as the start, so that what header_up adds is there, and the
// identity of our own is not.
func TestACancelCallGetsTheCredentialsOfTheProxy(t *testing.T) {
	t.Parallel()
	const name = "20-stop-before-upstream-id"
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{
		"": "handle_path /ai/* {\n" + testkit.Site(u.Addr()+" {\nheader_up Authorization \"Bearer of-the-proxy\"\n}", "api /runs") + "}\n",
	}})
	named := make(chan struct{})
	stage := u.Stage(caseScript(t, name, "upstream.jsonl").Gated(named)) // the Stop comes before the id
	c := g.Client("").As("user-a").On(stage)
	ask := testkit.Ask{
		Method: http.MethodPost, Path: "/ai/v1/responses?tenant=1",
		Body: `{"model":"m","stream":true,"background":true,"input":"hi"}`, Header: http.Header{"Content-Type": {"application/json"}},
	}
	a := c.Do(t, ask).Want(200)
	stop := testkit.Ask{Method: http.MethodPost, Path: "/ai/runs/" + a.Run() + "/cancel"}.With("Prefer", "wait=10")
	c.Do(t, stop.With("Prefer", "wait=0")).Want(http.StatusAccepted)
	close(named)
	rec := testkit.Decode[testkit.Record](t, c.Do(t, stop).Want(http.StatusOK).Body())
	if rec.State != "cancelled" || *rec.Cancel.Upstream != "confirmed" {
		t.Errorf("got %s, upstream %s, want cancelled and confirmed", rec.State, *rec.Cancel.Upstream)
	}
	if events := a.Rest(); len(events) != 1 || strings.Contains(events[0].Data, "delta") {
		t.Errorf("got %v, want the error frame alone", testkit.Pairs(events))
	}
	cancels := stage.Cancels()
	if len(cancels) != 1 || stage.Starts() != 1 {
		t.Fatalf("got %d cancel calls and %d starts, want one of each", len(cancels), stage.Starts())
	}
	got := cancels[0]
	if got.Method+" "+got.URI != "POST /v1/responses/resp_1/cancel" || len(got.Body) != 0 {
		t.Errorf("got %s %s with %d bytes", got.Method, got.URI, len(got.Body))
	}
	if auth := got.Header.Get("Authorization"); auth != "Bearer of-the-proxy" {
		t.Errorf("got Authorization %q, want what header_up adds", auth)
	}
}
