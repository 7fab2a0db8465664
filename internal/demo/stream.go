package demo

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// stream sends the answer as server-sent events, one chunk per token.
func (a *answer) stream(w http.ResponseWriter, r *http.Request) {
	if a.wait(r.Context(), firstToken) != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	s := &streamWriter{answer: a, w: w, flush: http.NewResponseController(w).Flush}
	if s.send(&delta{Role: "assistant", Content: new("")}, nil) != nil {
		return
	}
	err := a.perform(r.Context(), func(d *delta) error { return s.send(d, nil) })
	if f, ok := errors.AsType[*failure](err); ok {
		// No end marker follows: backends that fail after their headers send none.
		_ = s.chunk(f.body) // nobody to tell when the reader left as well
	}
	if err == nil && s.finish() == nil {
		a.demo.calls.end(a.seen, finished)
	}
}

// streamWriter writes the chunks of one answer.
type streamWriter struct {
	*answer
	w     http.ResponseWriter
	flush func() error
}

// send writes one chunk with one choice.
func (s *streamWriter) send(d *delta, finish *string) error {
	c := s.completion("chat.completion.chunk", choice{Delta: d, FinishReason: finish})
	if s.req.StreamOptions.IncludeUsage {
		c.Usage = json.RawMessage("null")
	}
	return s.chunk(c)
}

// finish says that the answer is whole.
func (s *streamWriter) finish() error {
	if err := s.send(&delta{}, new("stop")); err != nil {
		return err
	}
	if s.req.StreamOptions.IncludeUsage {
		c := s.completion("chat.completion.chunk")
		c.Choices, c.Usage = []choice{}, s.total()
		if err := s.chunk(c); err != nil {
			return err
		}
	}
	return s.data([]byte("[DONE]"))
}

// chunk writes one event with JSON in it.
func (s *streamWriter) chunk(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.data(b)
}

// data writes one event and flushes it.
func (s *streamWriter) data(b []byte) error {
	if _, err := s.w.Write(slices.Concat([]byte("data: "), b, []byte("\n\n"))); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.demo.calls.sent(s.seen)
	return nil
}
