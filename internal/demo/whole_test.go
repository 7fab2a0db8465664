package demo

import (
	"encoding/json"
	"testing"
)

func TestWholeAnswerSaysWhatTheStreamSays(t *testing.T) {
	for _, prompt := range []string{"hello", "use a tool", "think", "a long story"} {
		f := fold(t, ask(t.Context(), fast(), streamed(prompt)))
		tr := ask(t.Context(), fast(), `{"model":"m-1","messages":[{"role":"user","content":`+quote(prompt)+`}]}`)
		if got := tr.Result().Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%q: got content type %q, want application/json", prompt, got)
		}
		var c completion
		if err := json.Unmarshal(tr.Body.Bytes(), &c); err != nil {
			t.Fatalf("%q: reading %q: %v", prompt, tr.Body, err)
		}
		if c.Object != "chat.completion" || c.ID != "chatcmpl-demo-1" || c.Model != "m-1" || len(c.Choices) != 1 {
			t.Fatalf("%q: got %+v, want one chat.completion", prompt, c)
		}
		compareWhole(t, prompt, c, f)
	}
}

func compareWhole(t *testing.T, prompt string, c completion, f folded) {
	t.Helper()
	m := c.Choices[0].Message
	if m.Role != "assistant" || *m.Content != f.text || m.Reasoning != f.reasoning {
		t.Errorf("%q: got message %+v, want the text and reasoning of the stream", prompt, m)
	}
	if got := *c.Choices[0].FinishReason; got != "stop" {
		t.Errorf("%q: got finish reason %q, want stop", prompt, got)
	}
	if len(m.ToolCalls) != len(f.tools) {
		t.Fatalf("%q: got %d tool calls, want %d", prompt, len(m.ToolCalls), len(f.tools))
	}
	for i, got := range m.ToolCalls {
		if want := f.tools[i]; got.Index != nil || got.Type != "function" || got.ID != want.ID || got.Function != want.Function {
			t.Errorf("%q: got call %+v, want %+v without an index", prompt, got, want)
		}
	}
	var u usage
	if err := json.Unmarshal(c.Usage, &u); err != nil || u != *f.usage {
		t.Errorf("%q: got usage %s, want %+v", prompt, c.Usage, *f.usage)
	}
}
