package testkit

import (
	"encoding/json"
	"testing"
)

// Record is the public run record, as its contract spells it. Fields that are
// null when absent are pointers.
type Record struct {
	RunID           string   `json:"run_id"`
	ConversationID  string   `json:"conversation_id"`
	Route           string   `json:"route"`
	Attempt         int      `json:"attempt"`
	PreviousAttempt *string  `json:"previous_attempt"`
	State           string   `json:"state"`
	StateReason     *string  `json:"state_reason"`
	Effect          string   `json:"effect"`
	ClientActions   []string `json:"client_actions"`
	Model           *string  `json:"model"`
	EndedAt         *string  `json:"ended_at"`
	RecordExpiresAt *string  `json:"record_expires_at"`
	Frames          struct {
		Format   string  `json:"format"`
		FirstSeq *int    `json:"first_seq"`
		LastSeq  *int    `json:"last_seq"`
		FinalSeq *int    `json:"final_seq"`
		Bytes    int64   `json:"bytes"`
		ExpireAt *string `json:"expire_at"`
	} `json:"frames"`
	Cancel struct {
		Version     int     `json:"version"`
		RequestedAt *string `json:"requested_at"`
		Outcome     *string `json:"outcome"`
		Upstream    *string `json:"upstream"`
		Billing     string  `json:"billing"`
	} `json:"cancel"`
	Upstream struct {
		Dialect      string  `json:"dialect"`
		Status       *int    `json:"status"`
		ID           *string `json:"id"`
		Reattachable bool    `json:"reattachable"`
		Reattached   int     `json:"reattached"`
	} `json:"upstream"`
	Usage    json.RawMessage `json:"usage"`
	Snapshot *Snapshot       `json:"snapshot"`
	Links    struct {
		Self   string `json:"self"`
		Events string `json:"events"`
		Cancel string `json:"cancel"`
	} `json:"links"`
	Revision int `json:"revision"`
}

// Snapshot is the folded answer of a [Record].
type Snapshot struct {
	Complete     bool      `json:"complete"`
	Truncated    bool      `json:"truncated"`
	Text         string    `json:"text"`
	Reasoning    *string   `json:"reasoning"`
	FinishReason *string   `json:"finish_reason"`
	ToolReceipts []Receipt `json:"tool_receipts"`
	// Unresolved are tool calls without a result.
	Unresolved []ToolCall `json:"unresolved"`
}

// Receipt is what came of a tool call in a [Snapshot].
type Receipt struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Result string `json:"result"`
}

// ToolCall is a call of a tool in a [Snapshot].
type ToolCall struct {
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Reason is the state reason, or "".
func (r Record) Reason() string {
	if r.StateReason == nil {
		return ""
	}
	return *r.StateReason
}

// Outcome is what a Stop achieved, or "".
func (r Record) Outcome() string {
	if r.Cancel.Outcome == nil {
		return ""
	}
	return *r.Cancel.Outcome
}

// Lookup is the answer of an active look-up.
type Lookup struct {
	Status        string  `json:"status"`
	RunID         *string `json:"run_id"`
	Authoritative bool    `json:"authoritative"`
	Run           *Record `json:"run"`
}

// Named is the id of the run that the look-up names, or "".
func (l Lookup) Named() string {
	if l.RunID == nil {
		return ""
	}
	return *l.RunID
}

// Terminal is the data of a run.end or stream_expired event.
type Terminal struct {
	RunID          string          `json:"run_id"`
	ConversationID string          `json:"conversation_id"`
	State          string          `json:"state"`
	StateReason    *string         `json:"state_reason"`
	Reason         string          `json:"reason"` // of stream_expired
	Effect         string          `json:"effect"`
	RequestedSeq   *int            `json:"requested_seq"`
	FirstSeq       *int            `json:"first_seq"`
	FinalSeq       *int            `json:"final_seq"`
	Snapshot       json.RawMessage `json:"snapshot"`
	ClientActions  []string        `json:"client_actions"`
}

// Problem is the body of a refusal.
type Problem struct {
	Type          string   `json:"type"`
	Title         string   `json:"title"`
	Status        int      `json:"status"`
	Detail        string   `json:"detail"`
	Code          string   `json:"code"`
	Retryable     bool     `json:"retryable"`
	ClientActions []string `json:"client_actions"`
	RunID         string   `json:"run_id"`
	// ActiveRun is the run that keeps a conversation busy.
	ActiveRun struct {
		RunID  string `json:"run_id"`
		Events string `json:"events"`
		Cancel string `json:"cancel"`
	} `json:"active_run"`
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	} `json:"error"`
}

// Envelope is one frame in the NDJSON and JSON forms.
type Envelope struct {
	RunID      string  `json:"run_id"`
	Seq        int     `json:"seq"`
	EventID    string  `json:"event_id"`
	Attempt    int     `json:"attempt"`
	Source     string  `json:"source"`
	Type       string  `json:"type"`
	Event      *string `json:"event"`
	Data       string  `json:"data"`
	OccurredAt string  `json:"occurred_at"`
}

// Page is the finite JSON form of a run's events.
type Page struct {
	Events []Envelope `json:"events"`
	Next   *string    `json:"next"`
	State  string     `json:"state"`
}

// Decode reads a JSON document into a value of the asked type.
func Decode[T any](t testing.TB, raw []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("reading %T: %v in %.300q", v, err, raw)
	}
	return v
}
