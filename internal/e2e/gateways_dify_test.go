package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// workflow is a backend of Dify: its workflow goes on without the connection of
// its start, up to a place where it waits for somebody to join.
type workflow struct {
	*httptest.Server

	events  []string
	waits   int  // the place
	repeats bool // all events follow the state, not only those from then on

	mu     sync.Mutex // guards everything below
	began  time.Time
	starts int
	joins  []*http.Request
}

const betweenEvents = 40 * time.Millisecond

func newWorkflow(t *testing.T, repeats bool) *workflow {
	t.Helper()
	of := func(kind, data string) string {
		return `{"event":"` + kind + `","workflow_run_id":"wr-1","task_id":"t-1","data":{` + data + `}}`
	}
	b := &workflow{repeats: repeats, waits: 100}
	node := func(id, kind string) {
		b.events = append(b.events, of("node_started", `"id":"`+id+`"`), of("node_finished", fmt.Sprintf(`"id":%q,"node_type":%q,"title":"T","status":"succeeded","outputs":{"x":1}`, id, kind)))
	}
	b.events = append(b.events, of("workflow_started", `"id":"wr-1"`))
	node("e-start", "start")
	for i := range 200 {
		if i == 60 {
			node("e-tool", "tool")
		}
		b.events = append(b.events, of("text_chunk", fmt.Sprintf(`"text":"d%d "`, i%10)))
	}
	b.events = append(b.events, of("workflow_finished", `"status":"succeeded","outputs":{"text":"`+strings.Repeat("d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 ", 20)+`"}`))
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

// ServeHTTP implements [http.Handler].
func (b *workflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	b.mu.Lock()
	if r.Method == http.MethodPost {
		b.starts++
		b.began = time.Now()
	} else {
		b.joins = append(b.joins, r.Clone(r.Context()))
	}
	began := b.began
	b.mu.Unlock()
	from, to, say := 0, b.waits, func(event string) bool {
		_, err := w.Write([]byte("data: " + event + "\n\n"))
		http.NewResponseController(w).Flush()
		return err == nil
	}
	if r.Method == http.MethodGet {
		made := min(b.waits, int(time.Since(began)/betweenEvents))
		for _, e := range b.state(made) {
			say(e)
		}
		if from, to = made, len(b.events); b.repeats {
			from = 0
		}
	}
	for i := from; i < to; i++ {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(i) * betweenEvents))):
		case <-r.Context().Done():
			return
		}
		if !say(b.events[i]) {
			return
		}
	}
	if to == b.waits {
		<-r.Context().Done()
	}
}

// state is what the backend has stored of the first events.
func (b *workflow) state(made int) (all []string) {
	for _, e := range b.events[:made] {
		doc := gjson.Parse(e)
		switch kind := doc.Get("event").Str; kind {
		case "workflow_started", "node_started", "node_finished":
			all = append(all, fmt.Sprintf(`{"event":%q,"task_id":"wr-1","workflow_run_id":"wr-1","data":{"id":%q,"node_type":%q,"title":"T","status":"succeeded","outputs":null}}`,
				kind, doc.Get("data.id").Str, doc.Get("data.node_type").Str))
		}
	}
	return all
}

// TestAWorkflowOfADeadOwnerIsFoundAgain kills the owner of a run of Dify. A
// reader elsewhere gets each event once, and all of them where the backend says
// them again; the text that the record tells is whole in any case.
func TestAWorkflowOfADeadOwnerIsFoundAgain(t *testing.T) {
	for name, repeats := range map[string]bool{"events from then on": false, "all events": true} {
		t.Run(name, func(t *testing.T) {
			b := newWorkflow(t, repeats)
			p := b.gateways(t)
			other := p.all[1].Client(siteAuto).As("user-a")
			a := p.all[0].Client(siteAuto).As("user-a").Do(t, testkit.Ask{
				Method: http.MethodPost, Path: "/v1/workflows/run", Body: `{"inputs":{},"response_mode":"streaming","user":"u&1"}`,
			}.With("Content-Type", "application/json").With("Authorization", "Bearer user-token")).Want(200)
			a.Take(20)
			reader := other.Resume(t, a.Run(), "").Want(200)
			reader.Take(20)
			p.all[0].Crash()
			testkit.EndsAs(t, reader.Rest(), "completed")
			all := testkit.Content(other.Resume(t, a.Run(), "").Want(200).Rest())
			testkit.CheckIDs(t, a.Run(), 1, all)
			b.check(t, all)
			rec := other.Snapshot(t, a.Run())
			if rec.State != "completed" || rec.Upstream.Reattached != 1 || !rec.Snapshot.Complete || rec.Snapshot.Text != gjson.Get(b.events[len(b.events)-1], "data.outputs.text").Str {
				t.Errorf("got %s, reattached %d times, complete %v, text %q", rec.State, rec.Upstream.Reattached, rec.Snapshot.Complete, rec.Snapshot.Text)
			}
		})
	}
}

// gateways are two in front of the backend. They add its credential.
func (b *workflow) gateways(t *testing.T) *gateways {
	t.Helper()
	p := &gateways{redis: testkit.StartRedis(t)}
	to := b.Listener.Addr().String() + " {\nheader_up Authorization \"Bearer service\"\n}"
	for range 2 {
		p.all = append(p.all, testkit.Start(t, testkit.Setup{
			Global: "store redis " + p.redis.URL() + "\nlease " + shortLease.String(),
			Sites:  map[string]string{siteAuto: testkit.Site(to, "keepalive off")},
		}))
	}
	return p
}

// check fails the test unless the log is what the backend said, and was asked
// for as it should be.
func (b *workflow) check(t *testing.T, log []testkit.Event) {
	t.Helper()
	var got, want []string
	for _, e := range log {
		got = append(got, e.Data)
	}
	if want = b.events; !b.repeats {
		got, want = nodes(got), nodes(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.starts != 1 || len(b.joins) != 1 {
		t.Fatalf("got %d generations and %d joins, want one and one", b.starts, len(b.joins))
	}
	if got := b.joins[0].URL.RequestURI(); got != "/v1/workflow/wr-1/events?user=u%261&include_state_snapshot=true" {
		t.Errorf("joined at %s", got)
	}
	if got := b.joins[0].Header.Get("Authorization"); got != "Bearer service" {
		t.Errorf("joined with %q, want the configuration's credential", got)
	}
}

// nodes are the names of the events that are no text.
func nodes(events []string) (all []string) {
	for _, e := range events {
		if doc := gjson.Parse(e); doc.Get("event").Str != "text_chunk" {
			all = append(all, doc.Get("event").Str+" "+doc.Get("data.id").Str)
		}
	}
	return all
}
