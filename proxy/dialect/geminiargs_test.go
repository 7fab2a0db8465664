package dialect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// vertexCall is a call whose arguments come leaf by leaf, one frame each.
func vertexCall(leaves ...string) []string {
	part := func(call string) string {
		return `{"candidates":[{"content":{"parts":[{"functionCall":` + call + `}]}}]}`
	}
	blocks := []string{part(`{"name":"f","willContinue":true}`)}
	for _, leaf := range leaves {
		blocks = append(blocks, part(`{"partialArgs":[`+leaf+`],"willContinue":true}`))
	}
	return append(blocks, part(`{}`))
}

// TestArgumentsThatComeLeafByLeafAreJSON once the call has ended, and the
// beginning of it before.
func TestArgumentsThatComeLeafByLeafAreJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		leaves []string
		want   string
	}{
		{"none", nil, `{}`},
		{"a string in pieces", []string{
			`{"jsonPath":"$.city","stringValue":"Bos","willContinue":true}`, `{"jsonPath":"$.city","stringValue":"\"t\"<on>","willContinue":true}`, `{"jsonPath":"$.city","stringValue":""}`,
		}, `{"city":"Bos\"t\"<on>"}`},
		{"a string that is not ended", []string{`{"jsonPath":"$.a","stringValue":"x","willContinue":true}`, `{"jsonPath":"$.b","numberValue":1.5}`}, `{"a":"x","b":1.5}`},
		{"other values", []string{`{"jsonPath":"$.a","boolValue":false},{"jsonPath":"$.b","nullValue":"NULL_VALUE"}`}, `{"a":false,"b":null}`},
		{"deeper", []string{
			`{"jsonPath":"$.stops[0].name","stringValue":"A"}`, `{"jsonPath":"$.stops[0].at","numberValue":1}`, `{"jsonPath":"$.stops[1].name","stringValue":"B"}`,
			`{"jsonPath":"$.grid[0][0]","numberValue":1}`, `{"jsonPath":"$.grid[0][1]","numberValue":2}`, `{"jsonPath":"$.grid[1][0]","numberValue":3}`,
			`{"jsonPath":"$['odd key']","stringValue":"o"}`, `{"jsonPath":"$.deep.er","boolValue":true}`,
		}, `{"stops":[{"name":"A","at":1},{"name":"B"}],"grid":[[1,2],[3]],"odd key":"o","deep":{"er":true}}`},
		{"no path", []string{`{"jsonPath":"","stringValue":"x"}`, `{"jsonPath":"a","stringValue":"x"}`, `{"stringValue":"x"}`}, `{}`},
		{"too deep", []string{`{"jsonPath":"$` + strings.Repeat("[0]", 65) + `","stringValue":"x"}`}, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			blocks := vertexCall(tt.leaves...)
			_, snap := tell(t, "gemini", blocks...)
			if len(snap.Unresolved) != 1 || snap.Unresolved[0].Arguments != tt.want || !json.Valid([]byte(snap.Unresolved[0].Arguments)) {
				t.Fatalf("got %+v, want %s", snap.Unresolved, tt.want)
			}
			for n := range blocks {
				_, snap := tell(t, "gemini", blocks[:n+1]...)
				if got := snap.Unresolved[0].Arguments; !strings.HasPrefix(tt.want, got) {
					t.Errorf("after frame %d: got %s, want the beginning of %s", n+1, got, tt.want)
				}
			}
		})
	}
}

// TestOnlyTheFirstCandidateIsTheAnswer, whichever of them a chunk holds.
func TestOnlyTheFirstCandidateIsTheAnswer(t *testing.T) {
	t.Parallel()
	s, snap := tell(t, "gemini",
		`{"candidates":[{"index":1,"content":{"parts":[{"text":"B"}]},"finishReason":"MAX_TOKENS"}]}`,
		`{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]}},{"content":{"parts":[{"text":"A"}]}}]}`,
		`{"candidates":[{"index":0,"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`,
	)
	if snap.Text != "Aa" || optional(snap.FinishReason) != "STOP" || s.Reason != "" {
		t.Errorf("got %q, finish reason %q and reason %q, want only what the first said", snap.Text, optional(snap.FinishReason), s.Reason)
	}
}

// TestASearchIsSeenOnce: some models tell that they searched, others only what
// they found, and some both.
func TestASearchIsSeenOnce(t *testing.T) {
	t.Parallel()
	const (
		found    = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"groundingMetadata":{"webSearchQueries":["q"],"groundingChunks":[{"web":{"uri":"u"}}]}}]}`
		searched = `{"candidates":[{"content":{"parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"s","args":{}}},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","id":"s","response":{}}}]}}]}`
		empty    = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"groundingMetadata":{}}]}`
	)
	for _, tt := range []struct {
		blocks []string
		want   []string
	}{
		{[]string{empty, empty}, nil},
		{[]string{empty, found, found}, []string{"google_search"}},
		{[]string{searched, found}, []string{"GOOGLE_SEARCH_WEB"}},
	} {
		s, snap := tell(t, "gemini", tt.blocks...)
		var receipts []string
		for _, r := range snap.ToolReceipts {
			receipts = append(receipts, r.Name)
		}
		if !slices.Equal(receipts, tt.want) || !slices.Equal(s.Tools, tt.want) || len(snap.Unresolved) > 0 {
			t.Errorf("got receipts of %q, observed %q and open calls %+v, want %q", receipts, s.Tools, snap.Unresolved, tt.want)
		}
	}
}
