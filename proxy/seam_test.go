package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// steps stops a reader before and after each of its calls to the store, so that
// a test can append exactly there.
type steps struct {
	runregistry.Store
	mu   sync.Mutex // guards everything below
	at   func(step int)
	step int
}

// begin counts from here on.
func (s *steps) begin(at func(step int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
}

func (s *steps) take() {
	s.mu.Lock()
	at, n := s.at, s.step
	if at != nil {
		s.step++
	}
	s.mu.Unlock()
	if at != nil {
		at(n)
	}
}

// Load implements [runregistry.Reader].
func (s *steps) Load(ctx context.Context, id runregistry.RunID) (*runregistry.Record, error) {
	s.take()
	rec, err := s.Store.Load(ctx, id)
	s.take()
	return rec, err
}

// Watch implements [runregistry.Reader].
func (s *steps) Watch(ctx context.Context, id runregistry.RunID, reading bool) (*runregistry.Watch, error) {
	s.take()
	w, err := s.Store.Watch(ctx, id, reading)
	s.take()
	return w, err
}

// Read implements [runregistry.Reader].
func (s *steps) Read(ctx context.Context, q runregistry.PageQuery) (runregistry.Page, error) {
	s.take()
	page, err := s.Store.Read(ctx, q)
	s.take()
	return page, err
}

// stage is a run whose frames and end a test writes by hand.
type stage struct {
	store runregistry.Store
	lease runregistry.Lease

	mu    sync.Mutex // guards everything below
	last  runregistry.Seq
	ended bool
}

// newStage admits a run of user-a with some frames.
func newStage(t *testing.T, store runregistry.Store, conversation string, frames int) *stage {
	t.Helper()
	subject := runregistry.Subject{Realm: "pipe.test", Issuer: "header", Sub: "user-a"}
	scope := runregistry.SubjectScope(subject)
	d, err := store.Admit(t.Context(), &runregistry.Admission{
		Run: runregistry.NewRunID(runregistry.PartitionOf(string(scope))), Subject: subject, Scope: scope,
		Route: "default", Conversation: runregistry.ConversationID(conversation), Named: true, Dialect: "generic",
		Retention: runregistry.Retention{Frames: 1 << 40, Record: 1 << 41, Key: 1 << 41},
	})
	if err != nil {
		t.Fatalf("admitting: %v", err)
	}
	d.Watch.Close()
	if _, err := store.Intend(t.Context(), d.Lease); err != nil {
		t.Fatalf("intending: %v", err)
	}
	s := &stage{store: store, lease: d.Lease}
	s.append(t, 0, &runregistry.Progress{
		Response: &runregistry.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {acceptSSE}}, Stream: true, Kept: true},
		Format:   runregistry.FormatSSE, Dialect: "generic",
	})
	s.append(t, frames, nil)
	return s
}

// append stores n more frames.
func (s *stage) append(t *testing.T, n int, p *runregistry.Progress) {
	t.Helper()
	b := runregistry.Batch{After: s.last, Progress: p}
	for i := range n {
		b.Frames = append(b.Frames, fmt.Appendf(nil, "data: f%d\n\n", int(s.last)+i+1))
	}
	done, err := s.store.Append(context.WithoutCancel(t.Context()), s.lease, &b)
	if err != nil {
		t.Errorf("appending: %v", err)
	}
	s.last = done.Last
}

// unlessEnded does something to a run that has not ended, and reports whether
// it did.
func (s *stage) unlessEnded(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	do()
	return true
}

// settle ends the run.
func (s *stage) settle(t *testing.T) {
	t.Helper()
	s.ended = true
	end := &runregistry.Settlement{State: runregistry.Completed}
	if _, err := s.store.Settle(context.WithoutCancel(t.Context()), s.lease, end); err != nil {
		t.Errorf("settling: %v", err)
	}
}

// TestReplayMeetsTheLiveTailAtEveryInterleaving is case 11: whatever is
// appended between any two of a reader's steps, it gets every frame once, in
// order, and the end.
func TestReplayMeetsTheLiveTailAtEveryInterleaving(t *testing.T) {
	plans := map[string]func(t *testing.T, s *stage){
		"a frame":               func(t *testing.T, s *stage) { s.append(t, 1, nil) },
		"more than a page":      func(t *testing.T, s *stage) { s.append(t, runregistry.PageFrames+1, nil) },
		"the end":               func(t *testing.T, s *stage) { s.settle(t) },
		"a frame, then the end": func(t *testing.T, s *stage) { s.append(t, 1, nil); s.settle(t) },
	}
	views := map[string]func(run string) testkit.Ask{
		"from the beginning": func(run string) testkit.Ask { return testkit.Resume(run, "") },
		"at the tail":        func(run string) testkit.Ask { return testkit.Resume(run, testkit.Cursor(run, 3)) },
		"ahead of the log":   func(run string) testkit.Ask { return testkit.Resume(run, testkit.Cursor(run, 4)) },
		"control off":        func(run string) testkit.Ask { return own(run, testkit.Cursor(run, 1)) },
	}
	for planName, plan := range plans {
		for viewName, view := range views {
			t.Run(planName+" "+viewName, func(t *testing.T) {
				for at := range 24 {
					if !meets(t, at, plan, view) {
						return
					}
				}
				t.Errorf("the reader made more steps than were tried")
			})
		}
	}
}

// meets runs one interleaving: the plan is carried out at step at of the
// reader. It reports whether the reader came that far.
func meets(t *testing.T, at int, plan func(*testing.T, *stage), view func(string) testkit.Ask) bool {
	t.Helper()
	var reached atomic.Bool
	inBubble(t, func(t *testing.T) {
		var spy *steps
		s := setup{config: []configure{generic}, store: func(inner runregistry.Store) runregistry.Store {
			spy = &steps{Store: inner}
			return spy
		}}.open(t, streams())
		run := newStage(t, s.store, "conv-1", 3)
		id := string(run.lease.Run)
		spy.begin(func(step int) {
			if step == at {
				reached.Store(run.unlessEnded(func() { plan(t, run) }))
			}
		})
		var finish sync.WaitGroup
		finish.Go(func() {
			time.Sleep(5 * time.Second) // everything has come to rest
			run.unlessEnded(func() { run.append(t, 2, nil); run.settle(t) })
		})
		answer := s.Do(t, view(id))
		first := firstSeq(view(id))
		if answer.Status == http.StatusNoContent {
			finish.Wait()
			if int(run.last)+1 != first-1 {
				t.Errorf("step %d: got 204 at %d of a run with %d frames", at, first-1, run.last)
			}
			return
		}
		events := answer.Want(http.StatusOK).Rest()
		finish.Wait()
		checkWhole(t, id, first, int(run.last), events)
	})
	return reached.Load()
}

// firstSeq is the first frame that an events request asks for.
func firstSeq(a testkit.Ask) int {
	var seq int
	if _, number, ok := strings.Cut(a.Header.Get("Last-Event-ID"), "."); ok {
		fmt.Sscan(number, &seq) //nolint:errcheck // the test wrote it
	}
	return seq + 1
}

// checkWhole checks that the events are the frames first to last, once each, or
// that a reader from the future was told so.
func checkWhole(t *testing.T, run string, first, last int, events []testkit.Event) {
	t.Helper()
	if last < first-1 {
		onlyExpired(t, run, events, "lost", last+1)
		return
	}
	content := testkit.Content(events)
	testkit.CheckIDs(t, run, first, events)
	if len(content) != last-first+1 {
		t.Fatalf("got %d frames, want %d to %d", len(content), first, last)
	}
	for i, e := range content {
		if want := "f" + itoa(first+i); e.Data != want {
			t.Fatalf("got %q, want %q", e.Data, want)
		}
	}
}
