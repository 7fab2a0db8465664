package sdktest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// dataAnswer is what the client of version 4 says.
type dataAnswer struct {
	Message json.RawMessage
	Finish  *struct{ FinishReason string }
	Error   *string
}

// dataPair is version 4, whose streams are lines.
func dataPair(t *testing.T, options ...string) *pair {
	t.Helper()
	return pairOf(t, chats.Run(t, "aidata.server.mjs"), "4", options...)
}

func (p *pair) generate(t *testing.T, base string, watch ...string) *npm.Script {
	t.Helper()
	client := chats.Run(t, "aidata.client.mjs", append([]string{base, "generate"}, watch...)...)
	p.server.Says(t, "asked")
	client.Says(t, "half")
	return client
}

// TestAISDK4ChatIsTheSameThroughTheGateway, whose clients skip empty lines and
// no other filler.
func TestAISDK4ChatIsTheSameThroughTheGateway(t *testing.T) {
	t.Parallel()
	p := dataPair(t, "keepalive 1s")
	direct := p.generate(t, p.direct)
	p.server.Tell(t, "go")
	want := npm.Result[dataAnswer](t, direct)
	client := p.generate(t, p.gateway.URL(""), "watch")
	client.Says(t, "saw")
	p.server.Tell(t, "go")
	got := npm.Result[dataAnswer](t, client)
	if got.Error != nil || got.Finish == nil || got.Finish.FinishReason != "stop" || string(got.Message) != string(want.Message) {
		t.Errorf("got %s (%+v), want %s", got.Message, got, want.Message)
	}
	rec := p.record(t, "completed")
	s := rec.Snapshot
	if s.Text != "It is cold, −3 °C." || s.Reasoning == nil || *s.Reasoning != "Who knows: the tool." || s.FinishReason == nil || *s.FinishReason != "stop" {
		t.Errorf("got snapshot %+v, want the answer", s)
	}
	if want := []testkit.Receipt{{CallID: "call-1", Name: "weather", Status: "succeeded", Result: `{"celsius":-3}`}}; !slices.Equal(s.ToolReceipts, want) || len(s.Unresolved) > 0 {
		t.Errorf("got receipts %+v, unresolved %+v, want %+v", s.ToolReceipts, s.Unresolved, want)
	}
	if rec.Upstream.Dialect != "ai-data-v1" || string(rec.Usage) != `{"input_tokens":30,"output_tokens":12,"source":"upstream","complete":true}` {
		t.Errorf("got dialect %s, usage %s, want ai-data-v1 and that of both steps", rec.Upstream.Dialect, rec.Usage)
	}
}

// TestAISDK4ChatShowsWhatWentWrong as an error that the client throws.
func TestAISDK4ChatShowsWhatWentWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ command, shown, reason string }{
		{"die", "The run failed before its answer was complete. (upstream_truncated)", "upstream_truncated"},
		{"fail", "An error occurred.", "upstream_error"}, // the server's own words
	} {
		t.Run(tt.command, func(t *testing.T) {
			t.Parallel()
			p := dataPair(t)
			client := p.generate(t, p.gateway.URL(""))
			p.server.Tell(t, tt.command)
			if got := npm.Result[dataAnswer](t, client); got.Error == nil || *got.Error != tt.shown || got.Finish != nil {
				t.Errorf("got %+v, want the error %q", got, tt.shown)
			}
			if rec := p.record(t, "failed"); rec.Reason() != tt.reason {
				t.Errorf("got reason %q, want %q", rec.Reason(), tt.reason)
			}
		})
	}
}
