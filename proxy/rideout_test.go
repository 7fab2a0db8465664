package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/faultstore"
)

// recordsGone makes the next look-ups of records fail for a while, although
// logs can be read.
func recordsGone(faults *faultstore.Store, n int) {
	faults.Plan(faultstore.Load, n, faultstore.Fail())
}

// TestReadersWaitForTheRecordOfAnEnd: an end, the first frame and a change of
// state cannot be told without the record, and wait for it as a frame does.
func TestReadersWaitForTheRecordOfAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before int // frames that readers have seen when the store goes
		then   func(t *testing.T, run *stage)
		events string // what a reader with control events gets after it
		whole  bool   // a reader without them gets a clean end
	}{
		"completed":   {1, func(t *testing.T, run *stage) { t.Helper(); run.settle(t) }, "run.end", true},
		"first frame": {0, func(t *testing.T, run *stage) { t.Helper(); run.append(t, 1, nil); run.settle(t) }, "message run.end", true},
		"waiting": {1, func(t *testing.T, run *stage) {
			t.Helper()
			run.append(t, 0, &runregistry.Progress{State: runregistry.Waiting})
			time.Sleep(10 * time.Second) // in the bubble of the case
			run.settle(t)
		}, "run.state run.end", true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, streams(), generic)
				run := newStage(t, s.store, "conv-1", c.before)
				id := string(run.lease.Run)
				control, bare := s.Resume(t, id, ""), s.Do(t, own(id, ""))
				control.Take(c.before)
				bare.Take(c.before)
				synctest.Wait()
				recordsGone(faults, 6)
				c.then(t, run)
				var names []string
				for _, ev := range control.Rest() {
					names = append(names, ev.Name)
				}
				if got := strings.Join(names, " "); got != c.events {
					t.Errorf("got %s, want %s", got, c.events)
				}
				if _, err := bare.Events.All(); (err == nil) != c.whole {
					t.Errorf("without control events the stream ended with %v", err)
				}
			})
		})
	}
}

// TestAReaderOfAnExpiredLogWaitsForTheRecordToo.
func TestAReaderOfAnExpiredLogWaitsForTheRecordToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, streams(data(20)...), generic, keptFrames(3))
		run := s.ran(t, startChat())
		faults.Plan(faultstore.Load, 2, faultstore.Delay(0)) // those that decide about the request
		recordsGone(faults, 3)
		onlyExpired(t, run, s.Do(t, asks(run, testkit.Cursor(run, 2), "")).Rest(), "trimmed", 21)
	})
}

// TestAStartWaitsForItsAnswerWhileTheStoreIsAway, for as long as a reader of
// its stream would, and then says so.
func TestAStartWaitsForItsAnswerWhileTheStoreIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		away   time.Duration
		status int
	}{"a moment": {5 * time.Second, http.StatusOK}, "a minute": {time.Minute, http.StatusServiceUnavailable}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, faults := faulty(t, after(3*time.Second, streams(data(2)...)), generic)
				time.AfterFunc(time.Second, faults.Down)
				time.AfterFunc(time.Second+c.away, faults.Up)
				began := time.Now()
				answer := s.Do(t, startChat())
				if c.status != http.StatusOK {
					unavailable(t, answer)
					if took := time.Since(began); took < 10*time.Second || took > 15*time.Second {
						t.Errorf("told after %v, want about the 10s of a reader's patience", took)
					}
					time.Sleep(c.away)
					return
				}
				testkit.CheckIDs(t, answer.Want(c.status).Run(), 1, answer.Rest())
			})
		})
	}
}

// TestAStoppedRunIsToldPendingWhenItCannotBeLookedAt: the Stop is stored.
func TestAStoppedRunIsToldPendingWhenItCannotBeLookedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, faults := faulty(t, lingers(3*time.Second, data(1)...), generic)
		answer := s.Do(t, startChat())
		answer.Take(1)
		faults.Plan(faultstore.Watch, 1, faultstore.Fail())
		rec := testkit.Decode[testkit.Record](t, s.Do(t, stopping(answer.Run(), "wait=9")).Want(http.StatusAccepted).Body())
		if rec.State != "cancelling" || rec.Cancel.Version != 1 {
			t.Errorf("got %s, version %d", rec.State, rec.Cancel.Version)
		}
		time.Sleep(5 * time.Second) // until the backend lets go
	})
}

// moving is a store whose runs change their owner on command.
type moving struct {
	runregistry.Store
	epochs atomic.Uint64
}

// Read implements [runregistry.Reader].
func (m *moving) Read(ctx context.Context, q runregistry.PageQuery) (runregistry.Page, error) {
	page, err := m.Store.Read(ctx, q)
	page.Epoch += runregistry.Epoch(m.epochs.Load())
	return page, err
}

// TestReadersWithControlLearnThatTheirRunMoved to another gateway; it has no
// number, in no format.
func TestReadersWithControlLearnThatTheirRunMoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := &moving{}
		s := setup{config: []configure{generic}, store: func(inner runregistry.Store) runregistry.Store {
			m.Store = inner
			return m
		}}.open(t, streams())
		run := newStage(t, s.store, "conv-1", 1)
		id := string(run.lease.Run)
		control, bare, lines := s.Resume(t, id, ""), s.Do(t, own(id, "")), s.Do(t, asks(id, "", acceptNDJSON))
		body := make(chan []byte, 1)
		go func() { raw, _ := lines.Bytes(); body <- raw }()
		control.Take(1)
		bare.Take(1)
		synctest.Wait()
		m.epochs.Add(1)
		run.append(t, 1, nil)
		moved := control.Next()
		if moved.Name != "run.state" || moved.Own || moved.Data != `{"reason":null,"state":"running"}` {
			t.Errorf("got %s %s with id %v", moved.Name, moved.Data, moved.Own)
		}
		synctest.Wait() // the others have learned it too, before it is over
		run.settle(t)
		rest := control.Rest()
		testkit.CheckIDs(t, id, 2, rest)
		testkit.EndsAs(t, rest, "completed")
		if events := bare.Rest(); len(events) != 1 {
			t.Errorf("with control off got %v, want the second frame alone", testkit.Pairs(events))
		}
		all := envelopes(t, <-body)
		if len(all) != 4 || all[1].Type != "run.state" || all[1].Seq != 1 || all[2].Seq != 2 {
			t.Errorf("got envelopes %+v, want that an announcement is no place to go on after", all)
		}
	})
}
