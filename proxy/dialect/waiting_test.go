package dialect_test

import (
	"slices"
	"testing"
)

const (
	mcpElicit   = `{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}`
	mcpProgress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
)

func a2aStatus(state, final string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"kind":"status-update","taskId":"t","status":{"state":"` + state + `"}` + final + `}}`
}

// TestWaitingIsToldWhileTheStreamStaysOpen: once when it begins, and once when
// the agent goes on.
func TestWaitingIsToldWhileTheStreamStaysOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect string
		blocks  []string
		want    []int
	}{
		{"ai-ui-v1", []string{`{"type":"tool-approval-request","approvalId":"a"}`, `{"type":"tool-approval-request","approvalId":"b"}`, `{"type":"tool-approval-response","approvalId":"a"}`, `{"type":"tool-approval-response","approvalId":"b"}`}, []int{1, 0, 0, -1}},
		{"mcp", []string{mcpProgress, mcpElicit, mcpProgress, mcpProgress}, []int{0, 1, -1, 0}},
		{"mcp", []string{mcpElicit, `{"jsonrpc":"2.0","id":1,"result":{}}`}, []int{1, -1}},
		{"mcp", []string{`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}`, `{"jsonrpc":"2.0","method":"elicitation/create"}`}, []int{0, 0}},
		{"a2a", []string{a2aStatus("working", ""), a2aStatus("input-required", `,"final":false`), a2aStatus("working", "")}, []int{0, 1, -1}},
		{"a2a", []string{a2aStatus("input-required", `,"final":true`)}, []int{0}},
	} {
		d := lookup(t, tt.dialect)
		r := d.NewReader()
		var got []int
		for _, clean := range cut(t, d.Kind, sse(tt.blocks...), 0) {
			got = append(got, readOne(d, r, clean).Waiting)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: got %v, want %v", tt.dialect, tt.blocks, got, tt.want)
		}
	}
}

// TestWhatWaitsIsNamedSo: in envelopes.
func TestWhatWaitsIsNamedSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dialect, frame string }{
		{"ai-ui-v1", `{"type":"tool-approval-request","approvalId":"a"}`},
		{"mcp", mcpElicit},
		{"a2a", a2aStatus("input-required", `,"final":false`)},
		{"a2a", a2aStatus("auth-required", "")},
		{"dify", difyEvent("workflow_paused", "")},
	} {
		d := lookup(t, tt.dialect)
		if got := typeOf(d, cut(t, d.Kind, sse(tt.frame), 0)[0]); got != "run.waiting" {
			t.Errorf("%s %s: got %s, want run.waiting", tt.dialect, tt.frame, got)
		}
	}
}
