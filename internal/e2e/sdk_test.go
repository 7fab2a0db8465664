package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// sdk has the unmodified openai SDK.
var sdk = npmFolder{source: "sdk"}

// sdkResult is what the script prints about its question.
type sdkResult struct {
	Text, Run, Replayed string
	Error               *struct {
		Kind, Message string
		Status        *int
		Code          *string
	}
}

// question is a script that is under way.
type question struct {
	cmd *exec.Cmd
	out *bufio.Reader
	err bytes.Buffer
}

// ask lets the SDK ask its question; when its text is cut, it says so.
func ask(t *testing.T, baseURL string, stage *testkit.Stage, cut string) *question {
	t.Helper()
	q := &question{cmd: exec.CommandContext(t.Context(), "node", filepath.Join(sdk.install(t), "chat.mjs"), baseURL, stage.Name(), cut)}
	q.cmd.Dir = sdk.folder
	out, err := q.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	q.cmd.Stderr = &q.err
	q.out = bufio.NewReader(out)
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return q
}

// reached waits until the SDK has read the text that ask named.
func (q *question) reached(t *testing.T) {
	t.Helper()
	if line, err := q.out.ReadString('\n'); err != nil || line != "reached\n" {
		t.Fatalf("got %q and %v, want the SDK to get there: %s", line, err, q.err.String())
	}
}

func (q *question) result(t *testing.T) sdkResult {
	t.Helper()
	raw, err := io.ReadAll(q.out)
	if waited := q.cmd.Wait(); err != nil || waited != nil {
		t.Fatalf("script ended with %v and %v: %s", err, waited, q.err.String())
	}
	return testkit.Decode[sdkResult](t, bytes.TrimPrefix(raw, []byte("reached\n")))
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
	g, stage := sdkSite(t, caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0.05))
	got := ask(t, g.URL(""), stage, "").result(t)
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
	script := append(testkit.Script{testkit.Gate(gate)}, caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0)...)
	g, stage := sdkSite(t, script)
	network := newCutter(t, g.URL(""))
	q := ask(t, network.url(), stage, "")
	stage.Call(t, 1)
	network.cut()
	testkit.Eventually(t, "the gateway to notice and the SDK to try again", func() bool {
		return len(g.Log.Accesses("/v1/chat/completions")) == 1 && network.waiting() > 0
	})
	network.restore()
	close(gate)
	got := q.result(t)
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
	g, stage := sdkSite(t, caseScript(t, "09-resume-after-mid-stream-error", "upstream.jsonl"))
	got := ask(t, g.URL(""), stage, "").result(t)
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
	g, stage := sdkSite(t, caseScript(t, "27-retry-attaches", "upstream.jsonl").Gated(gate))
	network := newCutter(t, g.URL(""))
	q := ask(t, network.url(), stage, "tok1 tok2 ")
	gate <- struct{}{}
	q.reached(t)
	network.cut()
	got := q.result(t)
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
