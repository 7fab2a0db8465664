package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// transcript is what a reader of a stream received, piece by piece, with the
// time of each.
type transcript struct {
	httptest.ResponseRecorder
	began time.Time
	at    []time.Duration
	// failAt makes the n-th write fail, counted from 1; 0 never does.
	failAt int
}

func (t *transcript) Write(b []byte) (int, error) {
	t.at = append(t.at, time.Since(t.began))
	if len(t.at) == t.failAt {
		return 0, http.ErrHandlerTimeout
	}
	return t.ResponseRecorder.Write(b)
}

// ask sends a request to the agent and records the answer. body is JSON.
func ask(ctx context.Context, d *Demo, body string) *transcript {
	return askInto(ctx, d, body, &transcript{})
}

func askInto(ctx context.Context, d *Demo, body string, t *transcript) *transcript {
	t.began, t.Body = time.Now(), new(bytes.Buffer)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	func() {
		defer func() {
			p := recover()
			if err, _ := p.(error); p != nil && !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
		}()
		d.ServeHTTP(t, r)
	}()
	return t
}

// streamed is a request for a stream with usage.
func streamed(prompt string) string {
	return `{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":` + quote(prompt) + `}]}`
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fast is a demo that does not wait.
func fast() *Demo { return New(Options{Interval: time.Nanosecond}) }

// events are the data of all events of a stream. Anything that is not one data
// line and one blank line fails the test.
func events(t *testing.T, tr *transcript) []string {
	t.Helper()
	body := tr.Body.String()
	if body == "" {
		return nil
	}
	blocks := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	for i, b := range blocks {
		data, ok := strings.CutPrefix(b, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("event %d: got %q, want one data line", i+1, b)
		}
		blocks[i] = data
	}
	return blocks
}

// folded is a stream put together as a client would.
type folded struct {
	ids       map[string]bool
	text      string
	reasoning string
	tools     []toolCall
	finish    []string
	usage     *usage
	failure   *apiError
	done      bool
}

func fold(t *testing.T, tr *transcript) folded {
	t.Helper()
	f := folded{ids: map[string]bool{}}
	for _, data := range events(t, tr) {
		if f.done {
			t.Fatalf("got %q after [DONE], want nothing", data)
		}
		if data == "[DONE]" {
			f.done = true
			continue
		}
		f.add(t, data)
	}
	return f
}

func (f *folded) add(t *testing.T, data string) {
	t.Helper()
	var c struct {
		completion
		Usage *usage    `json:"usage"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Fatalf("reading chunk %q: %v", data, err)
	}
	if c.Error != nil {
		f.failure = c.Error
		return
	}
	f.ids[c.ID] = true
	if c.Usage != nil {
		f.usage = c.Usage
	}
	for _, ch := range c.Choices {
		f.choice(ch)
	}
}

func (f *folded) choice(ch choice) {
	if ch.FinishReason != nil {
		f.finish = append(f.finish, *ch.FinishReason)
	}
	if ch.Delta.Content != nil {
		f.text += *ch.Delta.Content
	}
	f.reasoning += ch.Delta.Reasoning
	for _, piece := range ch.Delta.ToolCalls {
		for len(f.tools) <= *piece.Index {
			f.tools = append(f.tools, toolCall{})
		}
		c := &f.tools[*piece.Index]
		c.ID += piece.ID
		c.Function.Name += piece.Function.Name
		c.Function.Arguments += piece.Function.Arguments
	}
}
