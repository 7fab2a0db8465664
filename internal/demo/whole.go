package demo

import (
	"errors"
	"net/http"
)

// whole sends the answer in one body, after the time a stream would have
// taken.
func (a *answer) whole(w http.ResponseWriter, r *http.Request) {
	if a.wait(r.Context(), firstToken) != nil {
		return
	}
	said := &delta{Role: "assistant"}
	err := a.perform(r.Context(), func(d *delta) error {
		said.join(d)
		return nil
	})
	if f, ok := errors.AsType[*failure](err); ok {
		writeJSON(w, http.StatusInternalServerError, f.body)
	}
	if err != nil {
		return
	}
	c := a.completion("chat.completion", choice{Message: said, FinishReason: new("stop")})
	c.Usage = a.total()
	a.demo.calls.end(a.seen, finished)
	writeJSON(w, http.StatusOK, c)
}

// join adds a piece of a stream to a whole message.
func (d *delta) join(piece *delta) {
	d.Reasoning += piece.Reasoning
	if piece.Content != nil {
		if d.Content == nil {
			d.Content = new("")
		}
		*d.Content += *piece.Content
	}
	for _, c := range piece.ToolCalls {
		if c.ID != "" {
			c.Index = nil
			d.ToolCalls = append(d.ToolCalls, c)
			continue
		}
		d.ToolCalls[len(d.ToolCalls)-1].Function.Arguments += c.Function.Arguments
	}
}
