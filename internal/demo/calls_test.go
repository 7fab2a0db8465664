package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

func readCalls(t *testing.T, d *Demo) tally {
	t.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/agent/calls", nil))
	if got := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || got != "no-store" {
		t.Fatalf("got %d with Cache-Control %q, want 200 and no-store", w.Code, got)
	}
	var got tally
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("reading %q: %v", w.Body, err)
	}
	return got
}

// Promise 4.
func TestAgentTellsWhatItSaw(t *testing.T) {
	d := fast()
	if got := readCalls(t, d); got.Total != 0 || got.Calls == nil {
		t.Errorf("got %+v before the first call, want an empty list", got)
	}
	frames := len(events(t, ask(t.Context(), d, streamed("hello"))))
	ask(t.Context(), d, `{"messages":[{"role":"user","content":"use a tool"}]}`)
	got := readCalls(t, d)
	want := []seen{
		{ID: "chatcmpl-demo-2", Script: "tool", State: finished},
		{ID: "chatcmpl-demo-1", Script: "plain", State: finished, Frames: frames},
	}
	if got.Total != 2 || len(got.Calls) != 2 || got.Calls[0] != want[0] || got.Calls[1] != want[1] {
		t.Errorf("got %+v, want %+v, newest first", got, want)
	}
}

func TestCallCanBeSeenWhileItRuns(t *testing.T) {
	d := fast()
	s := d.calls.begin("plain")
	d.calls.sent(s)
	d.calls.sent(s)
	want := seen{ID: "chatcmpl-demo-1", Script: "plain", State: running, Frames: 2}
	if got := readCalls(t, d).Calls[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOnlyTheFirstEndOfACallCounts(t *testing.T) {
	var c calls
	s := c.begin("plain")
	c.end(s, finished)
	c.end(s, hungUp)
	if got := c.tally().Calls[0].State; got != finished {
		t.Errorf("got %q, want %q", got, finished)
	}
}

func TestParallelCallsAreAllCountedAndTheNewestKept(t *testing.T) {
	d := fast()
	const n = keptCalls + 30
	ids := sync.Map{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			s := d.calls.begin("plain")
			d.calls.sent(s)
			d.calls.end(s, finished)
			ids.Store(s.ID, true)
		})
	}
	wg.Wait()
	got := readCalls(t, d)
	if got.Total != n || len(got.Calls) != keptCalls {
		t.Errorf("got %d calls and %d kept, want %d and %d", got.Total, len(got.Calls), n, keptCalls)
	}
	distinct := 0
	ids.Range(func(any, any) bool { distinct++; return true })
	if distinct != n {
		t.Errorf("got %d different ids, want %d", distinct, n)
	}
	if got.Calls[0].ID != "chatcmpl-demo-80" || got.Calls[0].Frames != 1 {
		t.Errorf("got %+v first, want the newest call with its frame", got.Calls[0])
	}
}
