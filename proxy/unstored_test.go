package proxy_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestFramesThatDoNotFitWhileTheStoreIsAwayEndTheRun: up to 4 MiB wait in
// memory. Then upstream is closed, nothing more is read, and once the store is
// back everything that fitted is in it, and the end says why.
func TestFramesThatDoNotFitWhileTheStoreIsAwayEndTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const away, size = 5 * time.Second, 1 << 20
		var sent, closed atomic.Int64
		s, faults := faulty(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for range 60 {
				if say(w, datum(strings.Repeat("x", size))) != nil || pause(r, time.Second) != nil {
					closed.Store(1)
					hangUp()
				}
				sent.Add(1)
			}
			return nil
		}, generic)
		answer := s.Do(t, startChat())
		answer.Take(1)
		run := answer.Run()
		answer.Drop()
		faults.Down()
		time.Sleep(2 * away)
		synctest.Wait()
		if n := sent.Load(); closed.Load() == 0 || n < 4 || n > 7 {
			t.Errorf("upstream sent %d frames of 1 MiB, closed: %d; want it closed when 4 MiB wait", n, closed.Load())
		}
		faults.Up()
		time.Sleep(away)
		rec := s.Snapshot(t, run)
		if rec.State != "failed" || rec.StateReason == nil || *rec.StateReason != "store_unavailable" {
			t.Fatalf("the run is %s, want failed for the store", rec.State)
		}
		events := s.Resume(t, run, "").Want(http.StatusOK).Rest()
		kept := testkit.Content(events)
		testkit.CheckIDs(t, run, 1, events)
		testkit.EndsAs(t, events, "failed")
		if n := int64(len(kept)); n < 5 || n > sent.Load()+1 {
			t.Errorf("%d frames are kept of the %d that were sent, want all that fitted", n, sent.Load()+1)
		}
	})
}
