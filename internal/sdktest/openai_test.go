package sdktest

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// answer is what the script of the openai SDK prints about its question.
type answer struct {
	Text, Run, Replayed string
	Error               *struct {
		Kind, Message string
		Status        *int
		Code          *string
	}
}

// ask lets the SDK ask its question; when its text is cut, it says so.
func ask(t *testing.T, baseURL string, stage *testkit.Stage, cut string) *npm.Script {
	t.Helper()
	return openAI.Run(t, "chat.mjs", baseURL, stage.Name(), cut)
}

// sdkSite is a gateway as a bare directive makes it: the SDK has no cookies
// and no key, only its bearer token.
func sdkSite(t *testing.T, scripts ...testkit.Script) (*testkit.Gateway, *testkit.Stage) {
	t.Helper()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(u.Addr())}})
	return g, u.Stage(scripts...)
}

// tenTokens is the text of the upstream of case 27.
const tenTokens = "tok1 tok2 tok3 tok4 tok5 tok6 tok7 tok8 tok9 tok10 "

func TestOpenAISDKStreams(t *testing.T) {
	t.Parallel()
	g, stage := sdkSite(t, caseScript(t, "27-retry-attaches").Scaled(0.05))
	got := npm.Result[answer](t, ask(t, g.URL(""), stage, ""))
	if got.Error != nil || got.Text != tenTokens || got.Run == "" {
		t.Errorf("got %+v, want the whole text and a run", got)
	}
}

// TestOpenAISDKRetriesWithoutASecondRun cuts its connection before the
// headers: the SDK sends the request again by itself, and gets the answer of
// the run that it paid for.
func TestOpenAISDKRetriesWithoutASecondRun(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	script := append(testkit.Script{testkit.Gate(gate)}, caseScript(t, "27-retry-attaches").Scaled(0)...)
	g, stage := sdkSite(t, script)
	network := testkit.NewCutter(t, g.URL(""))
	q := ask(t, network.URL(), stage, "")
	stage.Call(t, 1)
	network.Cut()
	testkit.Eventually(t, "the gateway to notice and the SDK to try again", func() bool {
		return len(g.Log.Accesses("/v1/chat/completions")) == 1 && network.Waiting() > 0
	})
	network.Restore()
	close(gate)
	got := npm.Result[answer](t, q)
	if got.Error != nil || got.Text != tenTokens || got.Replayed != "true" {
		t.Errorf("got %+v, want the whole text, replayed", got)
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestOpenAISDKSeesAnErrorWhenUpstreamBreaks must not let a broken answer
// pass for a whole one.
func TestOpenAISDKSeesAnErrorWhenUpstreamBreaks(t *testing.T) {
	t.Parallel()
	g, stage := sdkSite(t, caseScript(t, "09-resume-after-mid-stream-error"))
	got := npm.Result[answer](t, ask(t, g.URL(""), stage, ""))
	if got.Error == nil || got.Error.Kind != "APIError" || got.Text != "tok1 tok2 tok3 tok4 tok5 " {
		t.Errorf("got %+v, want the five tokens and an APIError", got)
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestOpenAISDKIsCutMidStream loses the network after three tokens. The run
// goes on, is paid for once, and its rest is there for who comes back with the
// same credential.
func TestOpenAISDKIsCutMidStream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	g, stage := sdkSite(t, caseScript(t, "27-retry-attaches").Gated(gate))
	network := testkit.NewCutter(t, g.URL(""))
	q := ask(t, network.URL(), stage, "tok1 tok2 ")
	gate <- struct{}{}
	q.Says(t, "reached")
	network.Cut()
	got := npm.Result[answer](t, q)
	if got.Error == nil || got.Run == "" {
		t.Fatalf("got %+v, want an error and a run", got)
	}
	close(gate)
	back := g.Client("").With("Authorization", "Bearer sk-test")
	events := back.Resume(t, got.Run, testkit.Cursor(got.Run, 2)).Want(200).Rest()
	testkit.CheckIDs(t, got.Run, 3, events)
	testkit.EndsAs(t, events, "completed")
	if rec := back.Snapshot(t, got.Run); rec.Snapshot == nil || rec.Snapshot.Text != strings.TrimSpace(tenTokens)+" " {
		t.Errorf("got snapshot %+v, want the whole text", rec.Snapshot)
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}
