package sdktest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// chatUI is a server and a client that asks once.
type chatUI struct {
	dialect string
	server  []string // script and arguments
	client  []string // script, and arguments after the address
}

var (
	agUI      = chatUI{"ag-ui", []string{"agui.server.mjs"}, []string{"agui.client.mjs", "run-1"}}
	transport = chatUI{"assistant-transport", []string{"assistant.server.mjs", "transport"}, []string{"assistant.client.mjs", "transport"}}
	// dataUI is assistant-ui on the data streams of the AI SDK, with codes of its
	// own.
	dataUI = chatUI{"ai-data-v1", []string{"assistant.server.mjs", "data"}, []string{"assistant.client.mjs", "data"}}
)

func (u chatUI) pair(t *testing.T, options ...string) *pair {
	t.Helper()
	return pairOf(t, chats.Run(t, u.server[0], u.server[1:]...), "", options...)
}

// half asks, and waits until the first piece of the answer is there.
func (u chatUI) half(t *testing.T, base string, options ...string) *npm.Script {
	t.Helper()
	client := chats.Run(t, u.client[0], slices.Concat([]string{base}, u.client[1:], options)...)
	client.Says(t, "half")
	return client
}

func TestChatsAreTheSameThroughTheGateway(t *testing.T) {
	t.Parallel()
	for _, u := range []chatUI{agUI, transport, dataUI} {
		t.Run(u.dialect, func(t *testing.T) {
			t.Parallel()
			p := u.pair(t, "keepalive 1s")
			direct := u.half(t, p.direct)
			p.server.Says(t, "asked")
			p.server.Tell(t, "go")
			want := direct.Line(t)
			client := u.half(t, p.gateway.URL(""), "watch")
			client.Says(t, "saw")
			p.server.Tell(t, "go")
			if got := client.Line(t); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			rec := p.record(t, "completed")
			s := rec.Snapshot
			if rec.Upstream.Dialect != u.dialect || s.Text != "It is cold, −3 °C." || s.Reasoning == nil || *s.Reasoning != "Who knows: the tool." {
				t.Errorf("got dialect %s, snapshot %+v, want %s and the answer", rec.Upstream.Dialect, s, u.dialect)
			}
			if want := []testkit.Receipt{{CallID: "call-1", Name: "weather", Status: "succeeded", Result: `{"celsius":-3}`}}; !slices.Equal(s.ToolReceipts, want) || len(s.Unresolved) > 0 {
				t.Errorf("got receipts %+v, unresolved %+v, want %+v", s.ToolReceipts, s.Unresolved, want)
			}
		})
	}
}

// uiEnd is what the clients print of an answer that failed.
type uiEnd struct {
	Error   json.RawMessage
	Message struct {
		Status struct{ Error json.RawMessage }
	}
	Finished bool
}

func (e uiEnd) shown() string {
	if e.Message.Status.Error != nil {
		return string(e.Message.Status.Error)
	}
	return string(e.Error)
}

func TestChatsShowWhatWentWrong(t *testing.T) {
	t.Parallel()
	const cut = "The run failed before its answer was complete. (upstream_truncated)"
	for _, tt := range []struct {
		chatUI
		command, shown, reason string
	}{
		{agUI, "die", `{"message":"` + cut + `","code":"failed"}`, "upstream_truncated"},
		{agUI, "fail", `{"message":"overloaded","code":"busy"}`, "upstream_error"},
		{transport, "die", `{"code":"unknown","message":"` + cut + `"}`, "upstream_truncated"},
		{transport, "fail", `{"code":"unknown","message":"Error: overloaded"}`, "upstream_error"},
		{dataUI, "die", `{"code":"unknown","message":"` + cut + `"}`, "upstream_truncated"},
		{dataUI, "fail", `{"code":"unknown","message":"Error: overloaded"}`, "upstream_error"},
	} {
		t.Run(tt.dialect+" "+tt.command, func(t *testing.T) {
			t.Parallel()
			p := tt.pair(t)
			client := tt.half(t, p.gateway.URL(""))
			p.server.Says(t, "asked")
			p.server.Tell(t, tt.command)
			if got := npm.Result[uiEnd](t, client); got.shown() != tt.shown || got.Finished {
				t.Errorf("client shows %s, finished %t, want %s", got.shown(), got.Finished, tt.shown)
			}
			if rec := p.record(t, "failed"); rec.Reason() != tt.reason {
				t.Errorf("got reason %q, want %q", rec.Reason(), tt.reason)
			}
		})
	}
}

// TestAGUIRetryJoinsItsRun: the run id that the client chose names the request,
// so that the same request again is the rest of the same run.
func TestAGUIRetryJoinsItsRun(t *testing.T) {
	t.Parallel()
	p := agUI.pair(t)
	direct := agUI.half(t, p.direct)
	p.server.Says(t, "asked")
	p.server.Tell(t, "go")
	want := direct.Line(t)
	network := testkit.NewCutter(t, p.gateway.URL(""))
	first := agUI.half(t, network.URL())
	p.server.Says(t, "asked")
	network.Cut()
	if got := npm.Result[uiEnd](t, first); got.Error == nil || got.Finished {
		t.Errorf("client that was cut shows %+v, want an error", got)
	}
	again := agUI.half(t, p.gateway.URL(""))
	p.server.Tell(t, "go")
	if got := again.Line(t); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.record(t, "completed")
	if got := agUI.half(t, p.gateway.URL("")).Line(t); got != want {
		t.Errorf("got %s after the end, want %s", got, want)
	}
	p.runs.Do(t, testkit.Ask{Path: "/"})
	p.server.Says(t, "GET") // and not one more "asked" before
}

// TestAGUIClientDoesNotNoticeACut with the fetch of the example.
func TestAGUIClientDoesNotNoticeACut(t *testing.T) {
	t.Parallel()
	p := agUI.pair(t)
	network := testkit.NewCutter(t, p.gateway.URL(""))
	client := agUI.half(t, network.URL(), "", resumingFetch(t))
	network.Cut()
	testkit.Eventually(t, "the client to come back", func() bool { return network.Waiting() > 0 })
	network.Restore()
	p.server.Says(t, "asked")
	p.server.Tell(t, "go")
	if got := npm.Result[uiEnd](t, client); string(got.Error) != "null" || !got.Finished {
		t.Errorf("got %+v, want a whole answer", got)
	}
	p.record(t, "completed")
}

// resumingFetch is the module of the example.
func resumingFetch(t *testing.T) string {
	t.Helper()
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "ai-sdk", "resuming-fetch.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	return example
}
