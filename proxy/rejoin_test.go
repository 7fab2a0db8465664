package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// archive is a backend of the Responses API that keeps the frames of its runs and
// whose connections break.
type archive struct {
	frames []string
	breaks []int // after this many frames of each stream; none: it goes on
	refuse int   // status of joins; 0 serves them
	// silent is how long nothing comes before a connection breaks.
	silent time.Duration
	// repeats is how many known frames a joined stream begins with; less than 0
	// leaves some out.
	repeats int

	mu     sync.Mutex // guards everything below
	starts int
	joins  []string // what was asked for
	said   []http.Header
}

// longAnswer is a response of n deltas, with its sequence numbers.
func longAnswer(n int) (frames []string) {
	seq := 0
	add := func(kind, rest string) {
		frames = append(frames, fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s}\n\n", kind, kind, seq, rest))
		seq++
	}
	add("response.created", `,"response":{"id":"resp_1","status":"in_progress"}`)
	for i := range n {
		add("response.output_text.delta", fmt.Sprintf(`,"output_index":0,"delta":"d%d "`, i))
	}
	add("response.completed", `,"response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}`)
	return frames
}

func (b *archive) serve(_ int, w http.ResponseWriter, r *http.Request) error {
	b.mu.Lock()
	from, stream := 0, len(b.joins)
	if r.Method == http.MethodGet {
		after := r.URL.Query().Get("starting_after")
		n, err := strconv.Atoi(after)
		if want := "/v1/responses/resp_1?stream=true&starting_after=" + after; err != nil || r.URL.RequestURI() != want {
			b.mu.Unlock()
			return fmt.Errorf("joined at %s", r.URL)
		}
		from, stream = max(0, n+1-b.repeats), stream+1
		b.joins, b.said = append(b.joins, after), append(b.said, r.Header.Clone())
	} else {
		b.starts++
	}
	refuse := b.refuse
	b.mu.Unlock()
	if r.Method == http.MethodGet && refuse != 0 {
		w.WriteHeader(refuse)
		return nil
	}
	sse(w)
	for i, f := range b.frames[from:] {
		if stream < len(b.breaks) && i == b.breaks[stream] {
			if err := pause(r, b.silent); err != nil {
				return err
			}
			hangUp()
		}
		if err := pause(r, 100*time.Millisecond); err != nil {
			return err
		}
		if err := say(w, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *archive) joined() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.joins
}

// TestABrokenConnectionIsJoinedAgain: the reader sees every frame once, and the
// backend generates once.
func TestABrokenConnectionIsJoinedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		breaks  []int
		repeats int
		joins   string
	}{
		"once":                      {[]int{3}, 0, "2"},
		"twice":                     {[]int{3, 4}, 0, "2 6"},
		"after the first frame":     {[]int{1}, 0, "0"},
		"before the end marker":     {[]int{11}, 0, "10"},
		"again before any frame":    {[]int{3, 0, 0}, 0, "2 2 2"},
		"with frames that we know":  {[]int{5}, 3, "4"},
		"with all frames that were": {[]int{5}, 99, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &archive{frames: longAnswer(10), breaks: c.breaks, repeats: c.repeats}
				s := newSite(t, b.serve)
				answer := s.Do(t, background.With("Authorization", "Bearer start"))
				events := answer.Rest()
				want := len(b.frames)
				if got := datas(events); len(events) != want || strings.Count(got, "sequence_number") != want {
					t.Errorf("got %d events, want %d:\n%s", len(events), want, got)
				}
				for i, e := range events {
					if id := testkit.Cursor(answer.Run(), i+1); e.ID != id {
						t.Errorf("event %d has id %s, want %s", i, e.ID, id)
					}
				}
				if got := strings.Join(b.joined(), " "); got != c.joins || b.starts != 1 {
					t.Errorf("joined after %q, %d generations, want %q and one", got, b.starts, c.joins)
				}
				rec := s.Snapshot(t, answer.Run())
				if rec.State != "completed" || rec.Upstream.Reattached != len(b.joins) {
					t.Errorf("got %s, reattached %d times, want completed, %d", rec.State, rec.Upstream.Reattached, len(b.joins))
				}
				if got := b.said[0].Get("Authorization"); got != "Bearer start" {
					t.Errorf("joined with %q, want the run's own credential", got)
				}
			})
		})
	}
}

// TestARunThatCannotBeJoinedAgainHasFailed: refused, or never found again.
func TestARunThatCannotBeJoinedAgainHasFailed(t *testing.T) {
	for name, c := range map[string]struct {
		refuse, joins int
		off           bool
		within        time.Duration
	}{
		"refused":           {refuse: http.StatusNotFound, joins: 1, within: 2 * time.Second},
		"away for too long": {refuse: http.StatusServiceUnavailable, joins: 33, within: 40 * time.Second},
		"switched off":      {off: true, within: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := &archive{frames: longAnswer(10), breaks: []int{4}, refuse: c.refuse}
				s := newSite(t, b.serve, func(cfg *proxy.Config) { cfg.Join.Off = c.off })
				began := time.Now()
				answer := s.Do(t, background)
				events := answer.Rest()
				if len(events) != 5 || !strings.Contains(events[4].Data, "upstream_truncated") {
					t.Errorf("got %v, want four frames and the error", testkit.Pairs(events))
				}
				if got := time.Since(began); got > c.within || len(b.joined()) > c.joins {
					t.Errorf("ended after %v and %d joins", got, len(b.joined()))
				}
				if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || rec.Reason() != "upstream_truncated" || rec.Upstream.Reattached != 0 {
					t.Errorf("got %s, %s, reattached %d times", rec.State, rec.Reason(), rec.Upstream.Reattached)
				}
			})
		})
	}
}

// TestStreamsThatBreakAtOnceAreNotAskedForInALoop: a backend that takes the
// call and gives nothing is asked with pauses, and not for ever.
func TestStreamsThatBreakAtOnceAreNotAskedForInALoop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10), breaks: append([]int{4}, make([]int, 1000)...)}
		s := newSite(t, b.serve)
		began := time.Now()
		answer := s.Do(t, background)
		if events := answer.Rest(); len(events) != 5 {
			t.Errorf("got %v, want four frames and the error", testkit.Pairs(events))
		}
		if got, joins := time.Since(began), len(b.joined()); got > 40*time.Second || joins < 10 || joins > 40 {
			t.Errorf("ended after %v and %d joins", got, joins)
		}
	})
}

// TestASilentStreamThatBreaksIsJoinedAgain: a tool may take its time, and streams
// that are joined meanwhile break, too.
func TestASilentStreamThatBreaksIsJoinedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10), breaks: []int{4, 0, 0, 2}, silent: 2 * time.Minute}
		s := newSite(t, b.serve)
		run := s.ran(t, background)
		if rec := s.Snapshot(t, run); rec.State != "completed" || rec.Upstream.Reattached != 4 {
			t.Errorf("got %s, reattached %d times, want completed and 4", rec.State, rec.Upstream.Reattached)
		}
	})
}

// TestAHoleInAJoinedStreamIsNotShown: frames that upstream no longer has are
// lost, and that is said.
func TestAHoleInAJoinedStreamIsNotShown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10), breaks: []int{4}, repeats: -2}
		s := newSite(t, b.serve)
		answer := s.Do(t, background)
		if events := answer.Rest(); len(events) != 5 {
			t.Errorf("got %v, want four frames and the error", testkit.Pairs(events))
		}
		if rec := s.Snapshot(t, answer.Run()); rec.State != "uncertain" || rec.Reason() != "log_lost" {
			t.Errorf("got %s, %s, want uncertain, log_lost", rec.State, rec.Reason())
		}
	})
}

// TestAStopBetweenTwoStreamsHolds: nothing is joined after it.
func TestAStopBetweenTwoStreamsHolds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10), breaks: []int{4}, refuse: http.StatusServiceUnavailable}
		s := newSite(t, b.serve, func(cfg *proxy.Config) { cfg.Cancel.Off = true })
		answer := s.Do(t, background)
		answer.Take(4)
		time.Sleep(3 * time.Second)
		if rec := s.Stop(t, answer.Run()); rec.State != "cancelled" {
			t.Errorf("got %s, want cancelled", rec.State)
		}
		n := len(b.joined())
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(b.joined()); got > n {
			t.Errorf("joined %d times after the Stop", got-n)
		}
	})
}

// TestAForegroundResponseIsNotJoined: its backend keeps nothing.
func TestAForegroundResponseIsNotJoined(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := &archive{frames: longAnswer(10), breaks: []int{4}}
		s := newSite(t, b.serve)
		ask := background
		ask.Body = `{"model":"m","stream":true,"input":"hi"}`
		answer := s.Do(t, ask)
		answer.Rest()
		if rec := s.Snapshot(t, answer.Run()); rec.State != "failed" || len(b.joined()) != 0 || rec.Upstream.Reattachable {
			t.Errorf("got %s after %d joins", rec.State, len(b.joined()))
		}
	})
}
