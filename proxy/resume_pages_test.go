package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestAReplayOfManyPagesHasNoSeam: pages are bounded by frames and by bytes,
// and a reader sees neither bound.
func TestAReplayOfManyPagesHasNoSeam(t *testing.T) {
	for name, pieces := range map[string][]string{
		"many frames": data(3500),
		"large frames": {
			datum(strings.Repeat("a", 300<<10)), datum(strings.Repeat("b", 300<<10)), datum(strings.Repeat("c", 300<<10)), datum("d"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(strings.Join(pieces, "")), generic)
				run := s.ran(t, startChat())
				for _, after := range []int{0, 1, len(pieces) - 1} {
					events := s.Resume(t, run, testkit.Cursor(run, after)).Want(http.StatusOK).Rest()
					if next := testkit.CheckIDs(t, run, after+1, events); next != len(pieces)+2 {
						t.Errorf("after %d: last number is %d, want %d", after, next-1, len(pieces)+1)
					}
					for i, e := range testkit.Content(events) {
						if want := strings.TrimSuffix(strings.TrimPrefix(pieces[after+i], "data: "), "\n\n"); e.Data != want {
							t.Fatalf("after %d: frame %d is %.20q, want %.20q", after, after+i+1, e.Data, want)
						}
					}
				}
			})
		})
	}
}

// TestFramesThatExpireDuringAReplay: the reader is told at the exact place
// where they are gone.
func TestFramesThatExpireDuringAReplay(t *testing.T) {
	for name, record := range map[string]time.Duration{"frames": time.Hour, "frames and record": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(strings.Join(data(3500), "")), generic, retention(10*time.Minute, record))
				run := s.ran(t, startChat())
				time.Sleep(10*time.Minute - 10*time.Second)
				answers := map[string]*testkit.Answer{"control": s.Resume(t, run, ""), "own": s.Do(t, own(run, ""))}
				time.Sleep(20 * time.Second) // nobody reads meanwhile
				for name, answer := range answers {
					events := answer.Want(http.StatusOK).Rest()
					last := events[len(events)-1]
					seq, err := testkit.SeqOf(run, events[len(events)-2])
					if err != nil || last.Name != "stream_expired" || last.ID != testkit.Cursor(run, 3501) {
						t.Fatalf("%s: ended with %v after %d (%v)", name, last, seq, err)
					}
					testkit.CheckIDs(t, run, 1, events[:seq])
					gone := testkit.Decode[testkit.Terminal](t, []byte(last.Data))
					if gone.Reason != "retention" || *gone.RequestedSeq != seq+1 || seq == 0 || seq == 3500 {
						t.Errorf("%s: got %+v after %d", name, gone, seq)
					}
				}
			})
		})
	}
}

// TestPagesOfEnvelopes: each page tells where the next begins, until the run
// has ended and all was read.
func TestPagesOfEnvelopes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		end := make(chan struct{})
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			if err := say(w, strings.Join(data(10), "")); err != nil {
				return err
			}
			<-end
			return nil
		}, generic)
		started := s.Do(t, startChat())
		started.Take(10)
		run := started.Run()
		page := func(after, limit string) testkit.Page {
			t.Helper()
			ask := asks(run, "", acceptJSON).Query("after", after)
			if limit != "" {
				ask = ask.Query("limit", limit)
			}
			return testkit.Decode[testkit.Page](t, s.Do(t, ask).Want(http.StatusOK).Body())
		}
		got, next := 0, ""
		for got < 10 {
			p := page(next, "4")
			for _, e := range p.Events {
				if got++; e.Seq != got {
					t.Fatalf("got %d, want %d", e.Seq, got)
				}
			}
			next = *p.Next
			if next != testkit.Cursor(run, got) || p.State != "running" {
				t.Fatalf("got next %s and state %s after %d", next, p.State, got)
			}
		}
		if p := page(next, ""); len(p.Events) != 0 || p.Next == nil || *p.Next != next {
			t.Errorf("at the tail of an active run got %+v, want nothing and the same place", p)
		}
		close(end)
		started.Rest()
		p := page(next, "")
		if len(p.Events) != 1 || p.Events[0].Type != "run.end" || p.Next != nil || p.State != "completed" {
			t.Errorf("after the end got %+v, want run.end and no next page", p)
		}
		if p := page("", "10"); len(p.Events) != 10 || p.Next == nil {
			t.Errorf("a full page got %d events and next %v, want run.end on the next one", len(p.Events), p.Next)
		}
		if p := page("", "11"); len(p.Events) != 11 || p.Next != nil {
			t.Errorf("got %d events and next %v, want all", len(p.Events), p.Next)
		}
		for _, limit := range []string{"0", "-1", "x", "1.5"} {
			s.Do(t, asks(run, "", acceptJSON).Query("limit", limit)).Problem(http.StatusBadRequest, "malformed_request")
		}
	})
}

// TestAPageIsBoundedByBytes, since it is composed in memory.
func TestAPageIsBoundedByBytes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		big := datum(strings.Repeat("x", 400<<10))
		s := newSite(t, streams(strings.Repeat(big, 10)), generic)
		run := s.ran(t, startChat())
		seen, after := 0, ""
		for pages := 0; ; pages++ {
			raw := s.Do(t, asks(run, "", acceptJSON).Query("after", after)).Want(http.StatusOK).Body()
			if len(raw) > 2<<20 {
				t.Fatalf("page %d has %d bytes", pages, len(raw))
			}
			p := testkit.Decode[testkit.Page](t, raw)
			seen += len(p.Events)
			if p.Next == nil {
				break
			}
			after = *p.Next
		}
		if seen != 11 {
			t.Errorf("got %d events on all pages, want 11", seen)
		}
	})
}
