package sdktest

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// What fills silence.
const (
	comment = ": keepalive\n"
	space   = " "
)

// cohereWhole is a whole answer: there is no recording of one.
const cohereWhole = cohereBegin + `event: content-end
data: {"type":"content-end","index":0}

event: message-end
data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":1}}}}

`

// silences are a whole answer for each call, and what fills silence in it.
var silences = map[string]map[string]struct{ recording, filler string }{
	"openai": {
		"chat.stream":        {"openai-chat/parallel-tool-calls.sse", comment},
		"chat.create":        {"openai-chat-compatible/openrouter-reasoning-comments.sse", comment},
		"completions.create": {"openai-completions-legacy/text-length-truncated.sse", comment},
		"responses.stream":   {"openai-responses/text-and-tool-1.sse", comment},
		"responses.create":   {"openai-responses/background-queued.sse", comment},
		"threads.stream":     {"openai-assistants/thread-run-stream.sse", comment},
	},
	"anthropic": {
		"messages.create": {"anthropic-messages/thinking.sse", comment},
		"messages.stream": {"anthropic-messages/mcp-servers.sse", comment},
	},
	"gemini": {
		"models.stream":       {"gemini/tool-call-thought-signature.sse", ""},
		"interactions.stream": {"gemini-interactions/payloads-tool-call-step1.jsonl", ""},
	},
	"cohere":    {"chat.stream": {"", comment}},
	"ollama":    {"chat.stream": {"ollama/chat.ndjson", space}, "generate.stream": {"ollama/generate.ndjson", space}},
	"replicate": {"stream": {"replicate/stream-multiline-data.sse", comment}},
}

// TestSDKsSeeNothingOfOurs: no id and nothing that fills silence, before the
// first frame and in the middle of one, shows in what an SDK hands on. Those
// that would stumble over it get the bytes of the backend and no others.
func TestSDKsSeeNothingOfOurs(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	sites := brokenSites(u, "keepalive 50ms")
	g := testkit.Start(t, testkit.Setup{Sites: sites})
	eachSDK(t, func(t *testing.T, s sdk, calls []broken) {
		for _, b := range calls {
			silent := silences[b.sdk.String()][b.call]
			whole := cohereWhole
			if silent.recording != "" {
				whole = string(testkit.Recording(t, silent.recording))
			}
			b.begin = ""
			stage := u.Stage(b.scripts(u.URL(), testkit.Send(whole), testkit.End())...)
			direct := s.do(t, job{Call: b.call, Base: u.URL(), Header: onStage(stage)})

			gate, cut := make(chan struct{}), len(whole)/2
			pauses := []testkit.Op{testkit.Gate(gate), testkit.Send(whole[:cut]), testkit.Gate(gate), testkit.Send(whole[cut:]), testkit.End()}
			if silent.filler == "" {
				pauses[0], pauses[2] = testkit.Wait(150*time.Millisecond), testkit.Wait(150*time.Millisecond)
			}
			base := g.URL(b.site())
			s.begin(t, job{Call: b.call, Base: base, Header: onStage(u.Stage(b.scripts(base, pauses...)...)), Filler: cmp.Or(silent.filler, comment)})
			for range 2 {
				if silent.filler != "" {
					s.Says(t, "filled")
					gate <- struct{}{}
				}
			}
			through := npm.Result[outcome](t, s.Script)
			sameOutcome(t, b.call, through, direct)
			switch ids := strings.Count(through.Wire, "id: "+through.run(t)+"."); {
			case silent.filler == "" && through.Wire != whole:
				t.Errorf("%s: got %q over the wire, want the backend's bytes", b.call, through.Wire)
			case silent.filler == comment && ids == 0:
				t.Errorf("%s: no frame had an id", b.call)
			}
		}
	})
}
