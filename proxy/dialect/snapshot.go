package dialect

// Snapshot is the answer as a client would have put it together. Its JSON form
// is the snapshot of the public record.
//
// Pieces of text are joined with nothing between them, whatever message, part
// or content block they belong to. Of several alternative answers (choices,
// candidates) the first one, index 0, is the answer. A refusal is text, since
// it is what the user was shown. A generic stream has no pieces: its text is
// the data of its frames, joined with line feeds.
type Snapshot struct {
	// Complete tells that the run completed and every frame was folded. The
	// caller sets it.
	Complete bool `json:"complete"`
	// Truncated tells that text, reasoning, arguments or a result was cut at
	// [MaxText].
	Truncated bool    `json:"truncated"`
	Text      string  `json:"text"`
	Reasoning *string `json:"reasoning"`
	// FinishReason is upstream's own word for why the answer ended; stop or
	// tool_calls for a dialect that ends properly without a word.
	FinishReason *string   `json:"finish_reason"`
	ToolReceipts []Receipt `json:"tool_receipts"`
	// Unresolved are tool calls without a result.
	Unresolved []Call `json:"unresolved"`
	// Error is what upstream said went wrong.
	Error *Error `json:"error"`

	stated *clip
}

// Restate makes the snapshot of a stream in which pieces are missing: its text is
// what upstream stated in one piece, if it did. It reports whether nothing is
// missing then, as far as the frames tell: of reasoning nobody states the whole.
func (s *Snapshot) Restate() bool {
	if s.stated == nil {
		return false
	}
	s.Text = s.take(s.stated)
	return s.Reasoning == nil
}

// Receipt is the result of a tool that upstream ran.
type Receipt struct {
	// Seq is the number of the frame; 0 for one that came after a Stop.
	Seq       uint64  `json:"seq"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Status    string  `json:"status"` // succeeded | failed
	ReceiptID *string `json:"receipt_id"`
	// Result is the tool's text, or its JSON as it stood in the stream.
	Result *string `json:"result"`
	// Idempotent is the operator's word that the tool may run again; dialects
	// leave it alone.
	Idempotent bool `json:"idempotent,omitempty"`
}

// Call is a tool call that was asked for.
type Call struct {
	Seq       uint64 `json:"seq"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Error is an error as upstream described it.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Type    string `json:"type,omitempty"`
}

// The statuses of a receipt.
const (
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
)
