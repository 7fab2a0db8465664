package sdktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// chats has what chats are made of, unmodified, servers and clients: three major
// versions of the AI SDK, AG-UI and assistant-ui.
var chats = npm.NewFolder("chat")

// pair is a server and the clients of one kind with a gateway between them.
type pair struct {
	version string
	server  *npm.Script
	direct  string // the server's own address
	gateway *testkit.Gateway
	runs    testkit.Client
}

// eachVersion runs a test with the versions that speak UI message streams.
func eachVersion(t *testing.T, test func(t *testing.T, p *pair), options ...string) {
	t.Helper()
	t.Parallel()
	for _, version := range []string{"5", "7"} {
		t.Run("v"+version, func(t *testing.T) {
			t.Parallel()
			test(t, newPair(t, version, options...))
		})
	}
}

func newPair(t *testing.T, version string, options ...string) *pair {
	t.Helper()
	return pairOf(t, chats.Run(t, "aisdk.server.mjs", version), version, options...)
}

// pairOf puts a gateway in front of a server, which prints its port first.
func pairOf(t *testing.T, server *npm.Script, version string, options ...string) *pair {
	t.Helper()
	p := &pair{version: version, server: server}
	addr := "127.0.0.1:" + p.server.Line(t)
	p.direct = "http://" + addr
	p.gateway = testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Site(addr, append([]string{"start POST /api/chat"}, options...)...)}})
	p.runs = p.gateway.Client("").As("ada")
	return p
}

// chat opens the chat "c" of a client.
func (p *pair) chat(t *testing.T, base string, options ...string) *npm.Script {
	t.Helper()
	return chats.Run(t, "aisdk.client.mjs", append([]string{p.version, base, "c"}, options...)...)
}

// half asks, and waits until the first piece of the answer is shown.
func (p *pair) half(t *testing.T, client *npm.Script) {
	t.Helper()
	client.Tell(t, "send")
	p.server.Says(t, "asked")
	client.Says(t, "half")
}

// turn is what a client says of a request.
type turn struct {
	Status   string
	Errors   []string
	Messages []json.RawMessage
	Finished *struct{ IsAbort, IsDisconnect, IsError bool }
	// Types are the parts of a stream that was followed.
	Types []string
}

func nextTurn(t *testing.T, client *npm.Script) turn {
	t.Helper()
	return npm.Result[turn](t, client)
}

// ready checks that a request ended well and returns the answer.
func ready(t *testing.T, client *npm.Script) string {
	t.Helper()
	got := nextTurn(t, client)
	if got.Status != "ready" || len(got.Errors) > 0 || got.Finished == nil || got.Finished.IsAbort || got.Finished.IsError {
		t.Fatalf("request ended as %+v, want ready", got)
	}
	return got.answer()
}

// answer is the last message.
func (u turn) answer() string {
	if len(u.Messages) == 0 {
		return ""
	}
	return string(u.Messages[len(u.Messages)-1])
}

// failed checks that the client shows an error, and how often.
func failed(t *testing.T, client *npm.Script, want string) {
	t.Helper()
	got := nextTurn(t, client)
	if got.Status != "error" || !slices.Equal(got.Errors, []string{want}) || got.Finished == nil || !got.Finished.IsError {
		t.Errorf("request ended as %s with errors %q, want error and %q", got.Status, got.Errors, want)
	}
}

// wholes are the answers as clients get them from the servers themselves, by
// version: they are always the same.
var wholes sync.Map

// whole is the answer without a gateway.
func (p *pair) whole(t *testing.T) string {
	t.Helper()
	if known, ok := wholes.Load(p.version); ok {
		return known.(string)
	}
	client := p.chat(t, p.direct)
	p.half(t, client)
	p.server.Tell(t, "go")
	answer := ready(t, client)
	wholes.Store(p.version, answer)
	return answer
}

// record is the record of the chat's newest run once it has ended.
func (p *pair) record(t *testing.T, state string) testkit.Record {
	t.Helper()
	var rec testkit.Record
	testkit.Eventually(t, "the run to end", func() bool {
		list := testkit.Decode[struct{ Runs []testkit.Record }](t, p.runs.Do(t, testkit.Ask{Path: "/_runs?conversation_id=c"}).Want(http.StatusOK).Body())
		if len(list.Runs) == 0 {
			return false
		}
		rec = p.runs.Snapshot(t, list.Runs[0].RunID)
		return rec.EndedAt != nil
	})
	if rec.State != state {
		t.Errorf("run ended as %s (%s), want %s", rec.State, rec.Reason(), state)
	}
	return rec
}

// TestAISDKChatIsTheSameThroughTheGateway, silence filled and ids added: the
// message is that which the server's own stream makes, and the record says the
// same.
func TestAISDKChatIsTheSameThroughTheGateway(t *testing.T) {
	eachVersion(t, func(t *testing.T, p *pair) {
		want := p.whole(t)
		client := p.chat(t, p.gateway.URL(""), "watch")
		client.Tell(t, "send")
		p.server.Says(t, "asked")
		client.Says(t, "half", "saw")
		p.server.Tell(t, "go")
		if got := ready(t, client); got != want {
			t.Errorf("got message %s, want %s", got, want)
		}
		rec := p.record(t, "completed")
		s := rec.Snapshot
		if !s.Complete || s.Text != "It is cold, −3 °C." || s.Reasoning == nil || *s.Reasoning != "Who knows: the tool." || s.FinishReason == nil || *s.FinishReason != "stop" {
			t.Errorf("got snapshot %+v, want the answer", s)
		}
		if want := []testkit.Receipt{{CallID: "call-1", Name: "weather", Status: "succeeded", Result: `{"celsius":-3}`}}; !slices.Equal(s.ToolReceipts, want) || len(s.Unresolved) > 0 {
			t.Errorf("got receipts %+v, unresolved %+v, want %+v", s.ToolReceipts, s.Unresolved, want)
		}
		if rec.Upstream.Dialect != "ai-ui-v1" || rec.Upstream.ID == nil || *rec.Upstream.ID != "answer-1" || rec.Effect != "observed" {
			t.Errorf("got dialect %s, id %v, effect %s, want ai-ui-v1, answer-1, observed", rec.Upstream.Dialect, rec.Upstream.ID, rec.Effect)
		}
		if string(rec.Usage) != `{"input_tokens":30,"output_tokens":12,"source":"upstream","complete":true}` {
			t.Errorf("got usage %s, want that of the metadata", rec.Usage)
		}
	}, "keepalive 1s")
}
