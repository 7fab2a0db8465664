package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestAnExpiredRunSaysSoOnceAndStillHasItsSnapshot is the life of an
// EventSource that comes back too late: 200 with one stream_expired, then 204.
func TestAnExpiredRunSaysSoOnceAndStillHasItsSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(chatFrame("hel"), chatFrame("lo"), chatDone), openaiChat, retention(10*time.Minute, 24*time.Hour))
		run := s.ran(t, startChat().Key("k-1"))
		time.Sleep(10*time.Minute - time.Second)
		if events := s.Resume(t, run, "").Rest(); len(events) != 4 {
			t.Fatalf("got %d events just before the retention ends, want 4", len(events))
		}
		time.Sleep(time.Second)
		for _, after := range []int{0, 1, 2} {
			gone := onlyExpired(t, run, s.Resume(t, run, testkit.Cursor(run, after)).Want(http.StatusOK).Rest(), "retention", 4)
			if gone.ConversationID != "conv-1" || *gone.RequestedSeq != after+1 || gone.FirstSeq != nil || *gone.FinalSeq != 4 ||
				gone.State != "completed" || gone.Effect != "possible" || strings.Join(gone.ClientActions, " ") != "show_snapshot" {
				t.Errorf("got %+v", gone)
			}
			if link := string(gone.Snapshot); link != `"/_runs/`+run+`"` {
				t.Errorf("snapshot is %s, want a link to the record", link)
			}
		}
		nothing(t, s.Resume(t, run, testkit.Cursor(run, 4)), run)
		if rec := s.Snapshot(t, run); rec.Snapshot.Text != "hello" || !rec.Snapshot.Complete {
			t.Errorf("got snapshot %+v, want the whole text", rec.Snapshot)
		}
	})
}

// TestARetryOfAnExpiredRun with the key is 410; with our cursor it is 200 and
// one frame that the dialect's client takes for an error.
func TestARetryOfAnExpiredRun(t *testing.T) {
	for name, c := range map[string]struct {
		dialect configure
		want    func(events []testkit.Event) bool
	}{
		"openai-chat": {openaiChat, func(events []testkit.Event) bool {
			return len(events) == 1 && strings.Contains(events[0].Data, `"error":{`) && strings.Contains(events[0].Data, `"code":"stream_expired"`)
		}},
		"generic": {generic, func(events []testkit.Event) bool {
			return len(events) == 1 && events[0].Name == "stream_expired"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, streams(chatFrame("hello"), chatDone), c.dialect, retention(10*time.Minute, 24*time.Hour))
				run := s.ran(t, startChat().Key("k-1"))
				time.Sleep(10 * time.Minute)
				again := s.Do(t, startChat().Key("k-1"))
				raw := string(again.Body())
				for _, want := range []string{`"code":"stream_expired"`, `"run_id":"` + run, `"conversation_id":"conv-1"`, `"reason":"retention"`, `"final_seq":3`, `"snapshot":"/_runs/` + run, `"client_actions":["show_snapshot"]`} {
					if again.Status != http.StatusGone || !strings.Contains(raw, want) {
						t.Errorf("got %d %s, want 410 with %s", again.Status, raw, want)
					}
				}
				events := s.Do(t, startChat().Key("k-1").With("Last-Event-ID", testkit.Cursor(run, 1))).Want(http.StatusOK).Rest()
				if !c.want(events) || events[0].ID != testkit.Cursor(run, 3) || !strings.Contains(events[0].Data, `"conversation_id":"conv-1"`) {
					t.Errorf("got %v", events)
				}
				if got := s.calls.Load(); got != 1 {
					t.Errorf("got %d calls, want 1", got)
				}
			})
		})
	}
}

// TestExpiredInEveryFormat: what tells of the loss is an envelope where frames
// are envelopes.
func TestExpiredInEveryFormat(t *testing.T) {
	for name, b := range map[string]backend{"sse": streams(data(3)...), "ndjson": lines("1", "2", "3")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, b, generic, retention(time.Minute, time.Hour))
				run := s.ran(t, startChat())
				time.Sleep(time.Minute)
				onlyExpired(t, run, s.Do(t, asks(run, "", acceptSSE)).Want(http.StatusOK).Rest(), "retention", 4)
				onlyExpired(t, run, s.Do(t, asks(run, "", acceptSSE).Query("control", "off")).Want(http.StatusOK).Rest(), "retention", 4)
				for _, ask := range []testkit.Ask{asks(run, "", acceptNDJSON), asks(run, "", acceptNDJSON).Query("control", "off")} {
					expiredEnvelope(t, run, envelopes(t, s.Do(t, ask).Want(http.StatusOK).Body()))
				}
				page := testkit.Decode[testkit.Page](t, s.Do(t, asks(run, "", acceptJSON)).Want(http.StatusOK).Body())
				expiredEnvelope(t, run, page.Events)
				if page.Next != nil || page.State != "completed" {
					t.Errorf("got next %v and state %s, want the end", page.Next, page.State)
				}
			})
		})
	}
}

func expiredEnvelope(t *testing.T, run string, all []testkit.Envelope) {
	t.Helper()
	if len(all) != 1 || all[0].Type != "stream_expired" || all[0].Source != "gateway" || all[0].EventID != testkit.Cursor(run, 4) {
		t.Fatalf("got %+v, want one stream_expired", all)
	}
}

// TestAnExpiredRunWithoutASayingFrame is a plain body: its transport is
// aborted.
func TestAnExpiredPlainBodyIsAborted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, answers(http.StatusOK, "text/plain", "hello"), generic, retention(time.Minute, time.Hour))
		run := s.ran(t, startChat().Key("k-1"))
		time.Sleep(time.Minute)
		answer := s.Resume(t, run, "").Want(http.StatusOK)
		if raw, err := answer.Bytes(); err == nil || len(raw) > 0 {
			t.Errorf("got %q and a clean end, want an aborted transport", raw)
		}
	})
}

// TestATrimmedActiveRunMovesItsReaderToWhatIsStored: the next reconnect goes on
// there without a hole of its own.
func TestATrimmedActiveRunMovesItsReaderToWhatIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, paced(time.Second, data(10)...), generic, keptFrames(4))
		started := s.Do(t, startChat())
		started.Take(10)
		run := started.Run()
		for _, ask := range []testkit.Ask{testkit.Resume(run, ""), testkit.Resume(run, testkit.Cursor(run, 5)), own(run, testkit.Cursor(run, 5))} {
			gone := onlyExpired(t, run, s.Do(t, ask).Want(http.StatusOK).Rest(), "trimmed", 6)
			if *gone.FirstSeq != 7 || gone.FinalSeq != nil || gone.State != "running" || strings.Join(gone.ClientActions, " ") != "show_snapshot reattach" {
				t.Errorf("got %+v", gone)
			}
		}
		events := s.Resume(t, run, testkit.Cursor(run, 6)).Want(http.StatusOK).Take(4)
		testkit.CheckIDs(t, run, 7, events)
		page := testkit.Decode[testkit.Page](t, s.Do(t, asks(run, "", acceptJSON)).Body())
		if len(page.Events) != 1 || page.Events[0].Type != "stream_expired" || page.Next == nil || *page.Next != testkit.Cursor(run, 6) {
			t.Errorf("got %+v, want one stream_expired and next %s", page, testkit.Cursor(run, 6))
		}
	})
}

// TestATrimmedRunThatHasEndedIsExpiredForItsBeginning: its id is the terminal
// cursor, so that an EventSource stops.
func TestATrimmedRunThatHasEndedIsExpiredForItsBeginning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(10)...), generic, keptFrames(4))
		run := s.ran(t, startChat().Key("k-1"))
		onlyExpired(t, run, s.Resume(t, run, "").Want(http.StatusOK).Rest(), "trimmed", 11)
		testkit.CheckIDs(t, run, 7, s.Resume(t, run, testkit.Cursor(run, 6)).Want(http.StatusOK).Rest())
		s.Do(t, startChat().Key("k-1")).Problem(http.StatusGone, "stream_expired")
	})
}

// TestAStrangerIsCutOffWhenItsFramesAreTrimmed: a generic stream has no words
// for a hole, and a clean end would pass for the whole answer.
func TestAStrangerIsCutOffWhenItsFramesAreTrimmed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(strings.Join(data(100), "")), generic, func(c *proxy.Config) { c.Limits.RunFrames = 10 })
		answer := s.Do(t, startChat()).Want(http.StatusOK)
		if events := answer.RestBroken(); len(events) != 0 {
			t.Errorf("got %v, want an aborted stream", testkit.Pairs(events))
		}
		replay := s.Resume(t, answer.Run(), "").Want(http.StatusOK).Rest()
		if len(replay) != 1 || replay[0].Name != "stream_expired" {
			t.Errorf("got %v, want stream_expired for a reader that knows us", testkit.Pairs(replay))
		}
	})
}
