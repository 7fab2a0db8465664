package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	defaultModel = "demo-1"
	// maxRequest bounds what the agent reads of a request, in bytes.
	maxRequest = 8 << 20
	// firstToken is how long the agent takes to begin, in tokens.
	firstToken = 8
)

// answer is one generation under way.
type answer struct {
	demo    *Demo
	req     request
	seen    *seen
	beats   []beat
	created int64
	next    time.Time // when the next piece is due
	usage   usage
	calls   int // tool calls begun
}

// serveChat answers one chat request, as a stream or whole.
func (d *Demo) serveChat(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&req); err != nil {
		refuse(w, "The body is not a chat request: "+err.Error())
		return
	}
	if len(req.Messages) == 0 {
		refuse(w, "A chat request needs messages.")
		return
	}
	a := d.begin(req)
	// Whatever ends this call without saying so is a reader that went away.
	defer d.calls.end(a.seen, hungUp)
	w.Header().Set("X-Request-Id", "req-"+a.seen.ID)
	if req.Stream {
		a.stream(w, r)
		return
	}
	a.whole(w, r)
}

func refuse(w http.ResponseWriter, why string) {
	writeJSON(w, http.StatusBadRequest, errorBody{apiError{Message: why, Type: "invalid_request_error", Code: "invalid_request"}})
}

// begin counts the call and sets the answer up.
func (d *Demo) begin(req request) *answer {
	if req.Model == "" {
		req.Model = defaultModel
	}
	s := pick(req.prompt())
	now := time.Now()
	a := &answer{
		demo: d, req: req, seen: d.calls.begin(s.name), beats: beats(s.steps),
		created: now.Unix(), next: now,
	}
	for _, m := range req.Messages {
		a.usage.Prompt += len(tokens(string(m.Content)))
	}
	return a
}

// prompt is the text of the last message of the user.
func (r request) prompt() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return string(m.Content)
		}
	}
	return ""
}

// wait sleeps until a piece is due that comes some tokens after the one
// before. It keeps to a schedule rather than adding up naps, so that the pace
// is right on a busy machine too.
func (a *answer) wait(ctx context.Context, tokens int) error {
	a.next = a.next.Add(time.Duration(tokens) * a.demo.interval)
	if early := time.Until(a.next); early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// failure is an error that the script asks for.
type failure struct{ body errorBody }

func (f *failure) Error() string { return f.body.Error.Message }

// perform plays the script at its pace and hands each piece to deliver. It
// returns nil at the end of the script, a [*failure] where the script has one,
// the error of deliver, or that of ctx. It panics with http.ErrAbortHandler
// where the script breaks the connection.
func (a *answer) perform(ctx context.Context, deliver func(*delta) error) error {
	for _, b := range a.beats {
		if err := a.wait(ctx, b.after); err != nil {
			return err
		}
		switch b.kind {
		case fail:
			a.demo.calls.end(a.seen, failed)
			return &failure{errorBody{apiError{Message: b.text, Type: "server_error", Code: b.name}}}
		case drop:
			a.demo.calls.end(a.seen, failed)
			panic(http.ErrAbortHandler)
		default:
			if err := deliver(a.delta(b)); err != nil {
				return err
			}
		}
	}
	return nil
}

// delta is the piece of an answer for one beat, counted into the usage.
func (a *answer) delta(b beat) *delta {
	a.usage.Completion++
	switch b.kind {
	case muse:
		a.usage.Details.Reasoning++
		return &delta{Reasoning: b.text}
	case call:
		return &delta{ToolCalls: []toolCall{a.toolCall(b)}}
	default:
		return &delta{Content: &b.text}
	}
}

// toolCall is one piece of a call: id and name first, then arguments.
func (a *answer) toolCall(b beat) toolCall {
	if b.first {
		a.calls++
	}
	c := toolCall{Index: new(a.calls - 1), Function: function{Arguments: b.text}}
	if b.first {
		c.ID, c.Type, c.Function.Name = fmt.Sprintf("call_demo_%d", a.calls), "function", b.name
	}
	return c
}

func (a *answer) completion(object string, choices ...choice) completion {
	return completion{
		ID: a.seen.ID, Object: object, Created: a.created, Model: a.req.Model,
		SystemFingerprint: "fp_demo", Choices: choices,
	}
}

// total is the usage of everything said so far.
func (a *answer) total() json.RawMessage {
	a.usage.Total = a.usage.Prompt + a.usage.Completion
	b, err := json.Marshal(a.usage)
	if err != nil {
		panic(err) // four numbers
	}
	return b
}
