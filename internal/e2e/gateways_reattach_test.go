package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// archive is a backend whose runs go on without their connections: it makes a
// frame every few milliseconds from the start on, and gives those after a
// position to whoever asks.
type archive struct {
	*httptest.Server

	frames []string
	every  time.Duration
	// pause, if set, is how many frames the stream of a start has: it falls silent
	// then, and only who joins hears the rest.
	pause int
	// after reads the position of a request that joins; ok is false for one that
	// does not.
	after  func(r *http.Request) (n int, ok bool)
	header map[string]string

	mu     sync.Mutex // guards everything below
	began  time.Time
	starts int
	joins  []http.Header
}

func (b *archive) open(t *testing.T) {
	t.Helper()
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
}

// ServeHTTP implements [http.Handler].
func (b *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, joins := b.after(r)
	b.mu.Lock()
	switch {
	case joins:
		b.joins = append(b.joins, r.Header.Clone())
	case r.Method == http.MethodPost:
		from, b.began = 0, time.Now()
		b.starts++
	default:
		b.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	began := b.began
	b.mu.Unlock()
	for name, value := range b.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := from; i < len(b.frames); i++ {
		if !joins && b.pause > 0 && i == b.pause {
			<-r.Context().Done()
			return
		}
		select {
		case <-time.After(time.Until(began.Add(time.Duration(i) * b.every))):
		case <-r.Context().Done():
			return
		}
		if _, err := w.Write([]byte(b.frames[i])); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
	}
}

func (b *archive) seen() (starts int, joins []http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts, b.joins
}

// responsesArchive keeps a response of the Responses API.
func responsesArchive(n int) (*archive, testkit.Ask) {
	b := &archive{after: func(r *http.Request) (int, bool) {
		seq, err := strconv.Atoi(r.URL.Query().Get("starting_after"))
		return seq + 1, err == nil && r.URL.Path == "/v1/responses/resp_1" && r.URL.Query().Get("stream") == "true"
	}}
	add := func(kind, rest string) {
		b.frames = append(b.frames, fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s}\n\n", kind, kind, len(b.frames), rest))
	}
	add("response.created", `,"response":{"id":"resp_1","status":"in_progress"}`)
	for i := range n {
		add("response.output_text.delta", fmt.Sprintf(`,"output_index":0,"delta":"d%d "`, i))
	}
	add("response.completed", `,"response":{"id":"resp_1","status":"completed","output":[]}`)
	return b, testkit.Ask{
		Method: http.MethodPost, Path: "/v1/responses", Body: `{"model":"m","stream":true,"background":true,"input":"hi"}`,
	}.With("Content-Type", "application/json")
}

// langGraphArchive keeps a run of a LangGraph server, which says nothing at its
// end.
func langGraphArchive(n int) (*archive, testkit.Ask) {
	b := &archive{
		header: map[string]string{"Content-Location": "/threads/th-1/runs/run-1"},
		after: func(r *http.Request) (int, bool) {
			id, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
			return id + 1, err == nil && r.Method == http.MethodGet && r.URL.Path == "/threads/th-1/runs/run-1/stream"
		},
	}
	b.frames = append(b.frames, "event: metadata\ndata: {\"run_id\":\"run-1\",\"attempt\":1}\nid: 0\n\n")
	for i := range n {
		b.frames = append(b.frames, fmt.Sprintf("event: values\ndata: {\"step\":%d}\nid: %d\n\n", i, i+1))
	}
	return b, testkit.Ask{
		Method: http.MethodPost, Path: "/threads/th-1/runs/stream",
		Body: `{"assistant_id":"a","input":{},"stream_mode":["values"],"stream_resumable":true}`,
	}.With("Content-Type", "application/json")
}

// TestARunOfADeadOwnerIsFoundAgainUpstream kills the owner of a run whose
// backend keeps its frames. A reader elsewhere gets the rest as if nothing had
// happened, and the backend generates once.
func TestARunOfADeadOwnerIsFoundAgainUpstream(t *testing.T) {
	for name, keep := range map[string]func(int) (*archive, testkit.Ask){"responses": responsesArchive, "langgraph": langGraphArchive} {
		t.Run(name, func(t *testing.T) {
			b, ask := keep(300)
			b.every = 40 * time.Millisecond
			b.open(t)
			p, other := b.gateways(t)
			a := p.all[0].Client(siteAuto).As("user-a").Do(t, ask.With("Authorization", "Bearer user-token")).Want(200)
			a.Take(20)
			reader := other.Resume(t, a.Run(), "").Want(200)
			reader.Take(20)
			p.all[0].Crash()
			shown := reader.Rest()
			end := testkit.EndsAs(t, shown, "completed")
			wantArchive(t, b, a.Run(), append(other.Resume(t, a.Run(), "").Want(200).Take(20), testkit.Content(shown)...))
			if end.RunID != a.Run() {
				t.Errorf("run.end is of %s, want %s", end.RunID, a.Run())
			}
			starts, joins := b.seen()
			if starts != 1 || len(joins) != 1 {
				t.Fatalf("got %d generations and %d joins, want one and one", starts, len(joins))
			}
			if got := joins[0].Get("Authorization"); got != "Bearer service" {
				t.Errorf("joined with %q, want the configuration's credential", got)
			}
			for _, name := range []string{"X-User", "X-Forwarded-For"} {
				if got := joins[0].Get(name); got != "" {
					t.Errorf("joined with %s %q, want nothing of whoever showed the way", name, got)
				}
			}
			if rec := other.Snapshot(t, a.Run()); rec.Upstream.Reattached != 1 || rec.State != "completed" {
				t.Errorf("got %s, reattached %d times, want completed and 1", rec.State, rec.Upstream.Reattached)
			}
		})
	}
}

// TestAStoppedOwnerHandsItsRunsOn: nobody waits for the lease to expire.
func TestAStoppedOwnerHandsItsRunsOn(t *testing.T) {
	b, ask := responsesArchive(300)
	b.every = 40 * time.Millisecond
	b.open(t)
	p, other := b.gateways(t)
	a := p.all[0].Client(siteAuto).As("user-a").Do(t, ask).Want(200)
	a.Take(20)
	reader := other.Resume(t, a.Run(), "").Want(200)
	reader.Take(20)
	if err := p.all[0].Stop(); err != nil {
		t.Fatal(err)
	}
	shown := reader.Rest()
	testkit.EndsAs(t, shown, "completed")
	if starts, joins := b.seen(); starts != 1 || len(joins) != 1 {
		t.Errorf("got %d generations and %d joins, want one and one", starts, len(joins))
	}
	if got := len(testkit.Content(shown)) + 20; got != len(b.frames) {
		t.Errorf("the reader got %d frames, want %d", got, len(b.frames))
	}
}

// gateways are two in front of the archive. They add its credential.
func (b *archive) gateways(t *testing.T) (*gateways, testkit.Client) {
	t.Helper()
	p, _ := b.behind(t, "shutdown finish 1s")
	return p, p.all[1].Client(siteAuto).As("user-a")
}

// behind puts the archive behind two gateways, and returns how one is set up.
func (b *archive) behind(t *testing.T, global string) (*gateways, testkit.Setup) {
	t.Helper()
	p := &gateways{redis: testkit.StartRedis(t), upstream: testkit.NewUpstream(t)}
	to := b.Listener.Addr().String() + " {\nheader_up Authorization \"Bearer service\"\n}"
	setup := testkit.Setup{
		Global: "store redis " + p.redis.URL() + "\nlease " + shortLease.String() + "\n" + global,
		Sites:  map[string]string{siteAuto: testkit.Site(to, "keepalive off")},
	}
	for range 2 {
		p.all = append(p.all, testkit.Start(t, setup))
	}
	return p, setup
}

// wantArchive fails the test unless events are all frames of the archive, each
// once and as they are.
func wantArchive(t *testing.T, b *archive, run string, events []testkit.Event) {
	t.Helper()
	testkit.CheckIDs(t, run, 1, events)
	if len(events) != len(b.frames) {
		t.Fatalf("got %d frames, want %d", len(events), len(b.frames))
	}
	for i, e := range events {
		if !strings.Contains(b.frames[i], "event: "+e.Name+"\ndata: "+e.Data+"\n") {
			t.Fatalf("frame %d is %s %s, want %s", i+1, e.Name, e.Data, b.frames[i])
		}
	}
}
