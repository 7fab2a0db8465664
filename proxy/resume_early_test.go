package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// after delays a backend's answer.
func after(d time.Duration, b backend) backend {
	return func(n int, w http.ResponseWriter, r *http.Request) error {
		if err := pause(r, d); err != nil {
			return err
		}
		return b(n, w, r)
	}
}

// TestAReaderThatComesBeforeTheAnswer is case 13: a run can be read before
// upstream has said anything, in every format, and what upstream then turns out
// to speak is shown as if the reader had come later.
func TestAReaderThatComesBeforeTheAnswer(t *testing.T) {
	chat := []string{chatFrame("a"), chatFrame("b"), chatDone}
	backends := map[string]backend{
		"event stream": streams(strings.Join(chat, "")), "lines": lines(`{"a":1}`, `{"b":2}`), "broken stream": breaks(chatFrame("a")),
	}
	formats := map[string]func(run string) testkit.Ask{
		"own":                        func(run string) testkit.Ask { return own(run, "") },
		"event stream":               func(run string) testkit.Ask { return asks(run, "", acceptSSE) },
		"event stream, control off":  func(run string) testkit.Ask { return asks(run, "", acceptSSE).Query("control", "off") },
		"envelopes":                  func(run string) testkit.Ask { return asks(run, "", acceptNDJSON) },
		"envelopes with control off": func(run string) testkit.Ask { return asks(run, "", acceptNDJSON).Query("control", "off") },
	}
	for backendName, b := range backends {
		for formatName, ask := range formats {
			t.Run(backendName+" as "+formatName, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newSite(t, after(40*time.Second, b))
					go s.Try(t, startChat().At("/chat").With("Accept", acceptSSE)) //nolint:errcheck // the run is what counts
					run := s.newest(t)
					early := s.Do(t, ask(run)).Want(http.StatusOK)
					got, gotErr := early.Bytes()
					late := s.Do(t, ask(run)).Want(http.StatusOK)
					want, wantErr := late.Bytes()
					if clean(got) != clean(want) || (gotErr == nil) != (wantErr == nil) {
						t.Errorf("got %q (%v), want what a later reader gets, %q (%v)", got, gotErr, want, wantErr)
					}
					if got, want := early.Header.Get("Content-Type"), late.Header.Get("Content-Type"); got != want {
						t.Errorf("got type %q, want %q", got, want)
					}
				})
			})
		}
	}
}

// TestFollowOffDoesNotWaitForTheAnswer: there is nothing to replay yet.
func TestFollowOffDoesNotWaitForTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(time.Minute, streams(data(1)...)), generic)
		go s.Try(t, startChat()) //nolint:errcheck // the run is what counts
		run := s.newest(t)
		began := time.Now()
		for _, ask := range []testkit.Ask{own(run, ""), testkit.Resume(run, "")} {
			if events := s.Do(t, ask.Query("follow", "off")).Want(http.StatusOK).Rest(); len(events) != 0 {
				t.Errorf("got %v", testkit.Pairs(events))
			}
		}
		if got := time.Since(began); got > time.Second {
			t.Errorf("answered after %v", got)
		}
	})
}

// clean removes what differs between two readers of one run: the jitter of the
// hint, and signs of life.
func clean(raw []byte) string {
	var kept []string
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "retry: ") && !strings.HasPrefix(line, ":") && line != "\n" {
			kept = append(kept, strings.TrimLeft(line, " "))
		}
	}
	return strings.Join(kept, "")
}

// TestAnEarlyReaderOfAPlainBodyIsToldToAskAgain and then learns that the run
// exists in its own format alone.
func TestAnEarlyReaderOfAPlainBodyIsToldToAskAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(time.Minute, answers(http.StatusOK, "text/plain", "hello")), generic)
		go s.Try(t, startChat().Key("k-1")) //nolint:errcheck // the run is what counts
		run := s.newest(t)
		answer := s.Do(t, asks(run, "", acceptSSE)).Want(http.StatusOK)
		if events := answer.Rest(); len(events) != 0 || len(answer.Events.Retries) != 1 {
			t.Errorf("got %v and retries %v, want a hint alone", events, answer.Events.Retries)
		}
		s.Do(t, asks(run, "", acceptSSE)).Problem(http.StatusNotAcceptable, "not_acceptable")
	})
}

// TestAReaderOfARunThatEndsUnanswered gets its end: its format is SSE.
func TestAReaderOfARunThatEndsUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, after(time.Minute, func(int, http.ResponseWriter, *http.Request) error { return errDial }), openaiChat)
		go s.Try(t, startChat()) //nolint:errcheck // the run is what counts
		run := s.newest(t)
		var events []testkit.Event
		var reading sync.WaitGroup
		reading.Go(func() { events = s.Do(t, own(run, "")).Rest() })
		testkit.EndsAs(t, s.Resume(t, run, "").Rest(), "failed")
		reading.Wait()
		if len(events) != 1 || !strings.Contains(events[0].Data, `"error":{`) || events[0].ID != testkit.Cursor(run, 1) {
			t.Errorf("got %v, want the dialect's error", events)
		}
	})
}

// newest is the id of the caller's newest run, as soon as there is one.
func (s *site) newest(t *testing.T) string {
	t.Helper()
	for range 1000 {
		if runs := s.list(t, ""); len(runs) > 0 {
			return runs[0].RunID
		}
		time.Sleep(time.Millisecond) // in the bubble
	}
	t.Fatal("no run was started")
	return ""
}

// list returns the caller's runs.
func (s *site) list(t *testing.T, query string) []testkit.Record {
	t.Helper()
	type list struct {
		Runs []testkit.Record `json:"runs"`
	}
	return testkit.Decode[list](t, s.Do(t, testkit.Ask{Path: "/_runs" + query}).Want(http.StatusOK).Body()).Runs
}
