package demo

import (
	"encoding/json"
	"strings"
	"testing"
)

// Promise 2.
func TestStreamIsWhatAnOpenAIClientExpects(t *testing.T) {
	tr := ask(t.Context(), fast(), streamed("hello"))
	if got := tr.Result().Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got content type %q, want text/event-stream", got)
	}
	f := fold(t, tr)
	if len(f.ids) != 1 || !f.ids["chatcmpl-demo-1"] {
		t.Errorf("got ids %v, want chatcmpl-demo-1 in every chunk", f.ids)
	}
	if len(f.finish) != 1 || f.finish[0] != "stop" {
		t.Errorf("got finish reasons %v, want one stop", f.finish)
	}
	if !f.done {
		t.Error("got no [DONE] at the end")
	}
	if f.text != plain().steps[0].text {
		t.Errorf("got text %q, want the script's", f.text)
	}
}

func TestFirstChunkNamesTheRoleAndTheLastOneBeforeDoneHasNoChoices(t *testing.T) {
	all := events(t, ask(t.Context(), fast(), streamed("hello")))
	want := `"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`
	if !strings.HasSuffix(all[0], want) {
		t.Errorf("got first chunk %s, want it to end with %s", all[0], want)
	}
	if got := all[len(all)-2]; !strings.Contains(got, `"choices":[],"usage":{"prompt_tokens":`) {
		t.Errorf("got last chunk %s, want usage without choices", got)
	}
}

func TestEveryChunkHasTheMembersThatSDKsRead(t *testing.T) {
	for _, data := range events(t, ask(t.Context(), fast(), streamed("use a tool"))) {
		if data == "[DONE]" {
			continue
		}
		var c map[string]any
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("reading %q: %v", data, err)
		}
		if c["object"] != "chat.completion.chunk" || c["model"] != "m-1" || c["created"] == nil || c["id"] == nil || c["choices"] == nil {
			t.Errorf("got %s, want object, the model asked for, created, id and choices", data)
		}
	}
}

func TestOnePieceOfTheAnswerIsOneEventInOneWrite(t *testing.T) {
	tr := ask(t.Context(), fast(), streamed("hello"))
	if got, want := len(tr.at), len(events(t, tr)); got != want {
		t.Errorf("got %d writes for %d events, want one each", got, want)
	}
	if !tr.Flushed {
		t.Error("got no flush, want one per event")
	}
}

func TestUsageCountsTheTokensThatWereSent(t *testing.T) {
	tr := ask(t.Context(), fast(), streamed("use a tool"))
	u := fold(t, tr).usage
	if u == nil {
		t.Fatal("got no usage, want it as asked for")
	}
	// All events are tokens but the role, the finish, the usage and [DONE].
	if got, want := u.Completion, len(events(t, tr))-4; got != want {
		t.Errorf("got %d completion tokens, want %d", got, want)
	}
	if got, want := u.Prompt, len(tokens("use a tool")); got != want {
		t.Errorf("got %d prompt tokens, want %d", got, want)
	}
	if got, want := u.Total, u.Prompt+u.Completion; got != want {
		t.Errorf("got %d tokens in all, want %d", got, want)
	}
	if got, want := u.Details.Reasoning, len(tokens(withTools().steps[0].text)); got != want {
		t.Errorf("got %d reasoning tokens, want %d", got, want)
	}
}

func TestUsageIsSentOnlyWhenAskedFor(t *testing.T) {
	tr := ask(t.Context(), fast(), `{"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	if got := tr.Body.String(); strings.Contains(got, `"usage"`) {
		t.Error("got usage, want none without include_usage")
	}
	if f := fold(t, tr); !f.done || f.usage != nil {
		t.Errorf("got done %v and usage %v, want the end and no usage", f.done, f.usage)
	}
}

func TestToolCallsJoinToTheirArguments(t *testing.T) {
	f := fold(t, ask(t.Context(), fast(), streamed("use a tool")))
	want := []toolCall{
		{ID: "call_demo_1", Function: function{Name: "get_weather", Arguments: `{"city": "Lisbon", "unit": "celsius", "days": 2}`}},
		{ID: "call_demo_2", Function: function{Name: "get_tides", Arguments: `{"harbour": "Cascais", "date": "tomorrow"}`}},
	}
	if len(f.tools) != len(want) {
		t.Fatalf("got %d tool calls, want %d", len(f.tools), len(want))
	}
	for i, w := range want {
		if got := f.tools[i]; got.ID != w.ID || got.Function != w.Function {
			t.Errorf("call %d: got %+v, want %+v", i, got, w)
		}
		if !json.Valid([]byte(f.tools[i].Function.Arguments)) {
			t.Errorf("call %d: got arguments %s, want JSON", i, f.tools[i].Function.Arguments)
		}
	}
}

func TestTextGoesOnAfterTheToolCalls(t *testing.T) {
	all := events(t, ask(t.Context(), fast(), streamed("use a tool")))
	lastCall, lastText, pieces := 0, 0, 0
	for i, data := range all {
		if strings.Contains(data, `"tool_calls"`) {
			lastCall = i
			pieces++
		}
		if strings.Contains(data, `"delta":{"content"`) {
			lastText = i
		}
	}
	if lastText <= lastCall {
		t.Errorf("got the last text in event %d and the last tool call in %d, want text after it", lastText, lastCall)
	}
	if pieces < 10 {
		t.Errorf("got %d pieces of tool calls, want their arguments cut like text", pieces)
	}
}
