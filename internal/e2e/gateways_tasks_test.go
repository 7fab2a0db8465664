package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// agent is an agent of A2A whose task goes on without connections. Its frames
// have no positions; a stream that is joined begins with the whole task.
type agent struct {
	pieces int
	every  time.Duration

	mu     sync.Mutex // guards everything below
	starts int
	joins  int
	made   int
	more   chan struct{} // closed when there is more
}

// say writes a frame; that a peer is gone is seen by its request.
func (a *agent) say(w io.Writer, id, result string) {
	_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+id+`,"result":`+result+"}\n\n")
}

func (a *agent) text(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "d%d ", i)
	}
	return b.String()
}

func (a *agent) task(n int) string {
	return `{"task":{"id":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[{"text":"` + a.text(n) + `"}]}]}}`
}

// work makes the pieces, whether anybody listens or not.
func (a *agent) work() {
	for range a.pieces {
		time.Sleep(a.every) // scripted: the pace of the agent itself
		a.mu.Lock()
		a.made++
		close(a.more)
		a.more = make(chan struct{})
		a.mu.Unlock()
	}
}

// ServeHTTP implements [http.Handler].
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	switch gjson.GetBytes(raw, "method").Str {
	case "SendStreamingMessage":
		a.starts++
		go a.work()
	case "SubscribeToTask":
		a.joins++
	default:
		a.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	at, more := a.made, a.more
	a.mu.Unlock()
	id := gjson.GetBytes(raw, "id").Raw
	w.Header().Set("Content-Type", "text/event-stream")
	a.say(w, id, a.task(at))
	for at < a.pieces {
		http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		a.mu.Lock()
		upTo := a.made
		more = a.more
		a.mu.Unlock()
		for ; at < upTo; at++ {
			a.say(w, id, fmt.Sprintf(`{"artifactUpdate":{"taskId":"task-1","contextId":"ctx-1","artifact":{"artifactId":"a","parts":[{"text":"d%d "}]},"append":%t}}`, at, at > 0))
		}
	}
	a.say(w, id, `{"statusUpdate":{"taskId":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
}

// TestATaskOfADeadOwnerIsFoundAgainUpstream although its frames have no
// positions: the whole task is one frame, and nothing is missing in the answer.
func TestATaskOfADeadOwnerIsFoundAgainUpstream(t *testing.T) {
	a := &agent{pieces: 300, every: 40 * time.Millisecond, more: make(chan struct{})}
	b := &archive{Server: httptest.NewServer(a)}
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	p, other := b.gateways(t)
	ask := testkit.Ask{Path: "/", Body: `{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":{"message":{"parts":[{"text":"hi"}]}}}`}.
		With("Accept", "text/event-stream")
	first := p.all[0].Client(siteAuto).As("user-a").Do(t, ask).Want(200)
	first.Take(20)
	reader := other.Resume(t, first.Run(), "").Want(200)
	shown := reader.Take(20)
	p.all[0].Crash()
	shown = append(shown, reader.Rest()...)
	testkit.EndsAs(t, shown, "completed")
	testkit.CheckIDs(t, first.Run(), 1, shown)
	whole := 0
	for _, e := range testkit.Content(shown) {
		if strings.Contains(e.Data, `"task":`) {
			whole++
		}
		if gjson.Get(e.Data, "id").Raw != "7" {
			t.Errorf("a frame has another number than the start: %s", e.Data)
		}
	}
	rec := other.Snapshot(t, first.Run())
	if rec.State != "completed" || rec.Upstream.Reattached != 1 || rec.Snapshot.Text != a.text(a.pieces) {
		t.Errorf("got %s, reattached %d times, %d bytes of text, want completed, 1, %d", rec.State, rec.Upstream.Reattached, len(rec.Snapshot.Text), len(a.text(a.pieces)))
	}
	if a.mu.Lock(); whole != 2 || a.starts != 1 || a.joins != 1 {
		t.Errorf("got %d whole tasks, %d generations and %d joins, want 2, 1 and 1", whole, a.starts, a.joins)
	}
	a.mu.Unlock()
}
