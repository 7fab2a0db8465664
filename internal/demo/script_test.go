package demo

import (
	"encoding/json"
	"regexp"
	"testing"
)

// Promise 1.
func TestPromptAloneDecidesTheAnswer(t *testing.T) {
	d := fast()
	for _, prompt := range []string{"hello", "use a tool", "think first", "please fail", "hang up", "a long story"} {
		first, second := fold(t, ask(t.Context(), d, streamed(prompt))), fold(t, ask(t.Context(), d, streamed(prompt)))
		if first.text == "" || first.text != second.text || first.reasoning != second.reasoning || first.done != second.done {
			t.Errorf("%q: got two different answers, want equal ones", prompt)
		}
	}
}

func TestWordsOfThePromptChooseTheScript(t *testing.T) {
	for prompt, want := range map[string]string{
		"":                              "plain",
		"hello":                         "plain",
		"Does this belong to the tools": "tool",
		"What is the WEATHER?":          "tool",
		"I belong here":                 "plain",
		"think, then tell a long story": "think",
		"error!":                        "fail",
		"hang up":                       "drop",
		"A long one":                    "long",
		"Ünïcödé prompt über alles":     "plain",
	} {
		if got := pick(prompt).name; got != want {
			t.Errorf("%q: got script %q, want %q", prompt, got, want)
		}
	}
}

func TestSuggestionsOfThePageShowEveryScript(t *testing.T) {
	index, err := files.ReadFile("web/index.html")
	if err != nil {
		t.Fatalf("reading the page: %v", err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`data-prompt="([^"]+)"`).FindAllSubmatch(index, -1) {
		shown[pick(string(m[1])).name] = true
	}
	for _, s := range append(scripts(), plain()) {
		if !shown[s.name] {
			t.Errorf("script %q: got no suggestion on the page for it", s.name)
		}
	}
}

func TestTheLastMessageOfTheUserIsThePrompt(t *testing.T) {
	body := `{"stream":true,"messages":[
		{"role":"system","content":"tool"},
		{"role":"user","content":"a long story"},
		{"role":"assistant","content":"fail"},
		{"role":"user","content":[{"type":"text","text":"use "},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"a tool"}]},
		{"role":"assistant","content":null}]}`
	d := fast()
	ask(t.Context(), d, body)
	if got := d.calls.tally().Calls[0].Script; got != "tool" {
		t.Errorf("got script %q, want that of the text parts of the last user message", got)
	}
	var req request
	if err := json.Unmarshal([]byte(body), &req); err != nil {
		t.Fatalf("reading the request: %v", err)
	}
	if got, want := req.prompt(), "use a tool"; got != want {
		t.Errorf("got prompt %q, want %q", got, want)
	}
}

func TestEntriesOfTheLongAnswerAreAllDifferent(t *testing.T) {
	seen := map[string]int{}
	for i := range entries {
		text := entry(i)
		if first, ok := seen[text]; ok {
			t.Errorf("entry %d: got the text of entry %d again", i+1, first+1)
		}
		seen[text] = i
	}
}
