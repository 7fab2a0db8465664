package dialect_test

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// ordinary are a frame that names the run, and one of those that come by the
// thousand after it.
var ordinary = map[string][2]string{
	"openai-chat": {
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}`,
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1755137921,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"WuQNX"}`,
	},
	"openai-completions": {
		`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":null}],"model":"m"}`,
		`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":" token","index":0,"logprobs":null,"finish_reason":null}],"model":"m"}`,
	},
	"openai-responses": {
		`response.created|{"type":"response.created","sequence_number":0,"response":{"id":"r","model":"m"}}`,
		`response.output_text.delta|{"type":"response.output_text.delta","sequence_number":9,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"x"}`,
	},
	"anthropic-messages": {
		`message_start|{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1,"output_tokens":1}}}`,
		`content_block_delta|{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}    }`,
	},
	"ollama": {
		`{"model":"m","created_at":"2024-05-24T20:26:46.294874Z","message":{"role":"assistant","content":""},"done":false}`,
		`{"model":"m","created_at":"2024-05-24T20:26:46.294874Z","message":{"role":"assistant","content":" token"},"done":false}`,
	},
	"ai-ui-v1":   {`{"type":"start","messageId":"m"}`, `{"type":"text-delta","id":"t1","delta":" token"}`},
	"ai-data-v1": {`f:{"messageId":"m"}`, `0:" token"`},
	"ag-ui":      {`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":" token"}`},
	"langgraph":  {`metadata|{"run_id":"r","attempt":1}`, `messages|[{"content":" token","type":"AIMessageChunk","id":"run-1"},{"tags":[]}]`},
	"mcp":        {`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`},
	"generic":    {"a", " token"},
	"openai-assistants": {
		`thread.run.created|{"id":"run_1","object":"thread.run","thread_id":"t","model":"m"}`,
		`thread.message.delta|{"id":"msg_1","object":"thread.message.delta","delta":{"content":[{"index":0,"type":"text","text":{"value":" token"}}]}}`,
	},
	"gemini-interactions": {
		`{"interaction":{"id":"i","status":"in_progress","model":"m"},"event_type":"interaction.created"}`,
		`{"index":1,"delta":{"text":" to\"ken","type":"text"},"event_type":"step.delta"}`,
	},
	"cohere": {
		`message-start|{"id":"m","type":"message-start","delta":{}}`,
		`content-delta|{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" token"}}}}`,
	},
	"assistant-transport": {`{"type": "step-start", "messageId": "m"}`, `{"type": "text-delta", "textDelta": " token", "path": [0]}`},
	"mastra":              {`{"type":"start","runId":"r","from":"AGENT","payload":{}}`, `{"type":"text-delta","runId":"r","from":"AGENT","payload":{"id":"1","text":" token"}}`},
	"langserve":           {`metadata|{"run_id":"r"}`, `data|{"content":" token","type":"AIMessageChunk"}`},
	"letta": {
		`{"id":"message-1","message_type":"reasoning_message","reasoning":"a","run_id":"r"}`,
		`{"id":"message-1","date":"2026-01-01","message_type":"assistant_message","content":" token","run_id":"r"}`,
	},
	"dify": {
		`{"event":"workflow_started","conversation_id":"c","task_id":"t"}`,
		`{"event":"message","conversation_id":"c","message_id":"m","task_id":"t","answer":" token"}`,
	},
	"fastgpt":   {`flowNodeStatus|{"status":"running"}`, `answer|{"id":"","object":"","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}`},
	"flowise":   {`{"event":"start","data":""}`, `{"event":"token","data":" token"}`},
	"n8n":       {`{"type":"begin","metadata":{"nodeId":"n"}}`, `{"type":"item","content":" token","metadata":{"nodeId":"n","itemIndex":0}}`},
	"replicate": {"output|", "output| token"},
	"a2a": {
		`{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":" token"}]},"append":true}}}`,
	},
}

// framesOf returns the two frames, parsed.
func framesOf(t testing.TB, name string) (d *dialect.Dialect, first, next *frame.Frame) {
	t.Helper()
	d = lookup(t, name)
	pair := ordinary[name]
	parsed := [2]frame.Frame{}
	for i, block := range pair {
		body := sse(block)
		if d.Kind == frame.Lines {
			body = []byte(block + "\n")
		}
		frame.Parse(d.Kind, body, &parsed[i])
	}
	return d, &parsed[0], &parsed[1]
}

// TestReadingOrdinaryFramesAllocatesNothing: promise 2. (Gemini counts tokens
// in every frame, and has few and large ones.)
func TestReadingOrdinaryFramesAllocatesNothing(t *testing.T) {
	for _, name := range dialect.Names() {
		if name == "gemini" {
			continue
		}
		d, first, next := framesOf(t, name)
		r := d.NewReader()
		r.Read(first)
		var told dialect.Facts
		allocs := testing.AllocsPerRun(100, func() { told = r.Read(next) })
		if allocs != 0 || told != (dialect.Facts{}) {
			t.Errorf("%s: got %v allocations and %+v, want none and nothing", name, allocs, told)
		}
	}
}

// TestReadingAllocatesNothingWithoutIDs: a backend that never names its run is
// not searched for ever.
func TestReadingAllocatesNothingWithoutIDs(t *testing.T) {
	d := lookup(t, "openai-chat")
	var f frame.Frame
	frame.Parse(d.Kind, sse(`{"id":"","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`), &f)
	r := d.NewReader()
	for range 20 {
		r.Read(&f)
	}
	if allocs := testing.AllocsPerRun(100, func() { r.Read(&f) }); allocs != 0 {
		t.Errorf("got %v allocations, want none", allocs)
	}
}

// TestFoldingIsLinear: the price of a frame does not grow with what came
// before it (promise 4).
func TestFoldingIsLinear(t *testing.T) {
	d, _, next := framesOf(t, "openai-chat")
	perFrame := func(n int) float64 {
		folder := d.NewFolder()
		return testing.AllocsPerRun(1, func() {
			for i := range n {
				folder.Fold(uint64(i+1), next)
			}
		}) / float64(n)
	}
	if short, long := perFrame(100), perFrame(20_000); long > short+1 {
		t.Errorf("got %.2f allocations a frame in a long run, %.2f in a short one", long, short)
	}
}

func BenchmarkRead(b *testing.B) {
	for name := range ordinary {
		b.Run(name, func(b *testing.B) {
			d, first, next := framesOf(b, name)
			r := d.NewReader()
			r.Read(first)
			b.ReportAllocs()
			for b.Loop() {
				r.Read(next)
			}
		})
	}
}

// BenchmarkReadLongFrame: a frame of 100 kB that tells nothing.
func BenchmarkReadLongFrame(b *testing.B) {
	d := lookup(b, "openai-chat")
	var f frame.Frame
	frame.Parse(d.Kind, sse(`{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"`+strings.Repeat("lorem ipsum ", 8500)+`"},"finish_reason":null}]}`), &f)
	r := d.NewReader()
	r.Read(&f)
	b.SetBytes(int64(len(f.Data)))
	b.ReportAllocs()
	for b.Loop() {
		r.Read(&f)
	}
}

func BenchmarkFold(b *testing.B) {
	for name := range ordinary {
		b.Run(name, func(b *testing.B) {
			d, _, next := framesOf(b, name)
			folder := d.NewFolder()
			b.ReportAllocs()
			for i := uint64(1); b.Loop(); i++ {
				folder.Fold(i, next)
			}
		})
	}
}
