package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// told sends frames with a name, an id of upstream's own, a comment and a
// retry field.
var told = streams(": hello\n", "retry: 10\nid: theirs-1\nevent: step\ndata: one\n\n", "data: two\ndata: lines\n\n")

// TestEventStreams: the gateway adds its ids, a hint and run.end; with control
// off nothing but the ids.
func TestEventStreams(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.Header().Set("X-Request-Id", "req-1")
			w.Header().Set("X-Secret", "s")
			return told(n, w, r)
		}, generic)
		run := s.ran(t, startChat())
		plain := "id: " + run + ".1\nevent: step\ndata: one\n\nid: " + run + ".2\ndata: two\ndata: lines\n\n"
		for _, accept := range []string{"", "*/*", acceptSSE, "text/html;q=0.1, text/event-stream", "application/json;q=0.5, text/event-stream"} {
			answer := s.Do(t, asks(run, "", accept).Query("control", "off")).Want(http.StatusOK)
			if got := string(answer.Body()); got != plain {
				t.Errorf("Accept %q: got %q, want %q", accept, got, plain)
			}
			if answer.Header.Get("X-Request-Id") != "req-1" || answer.Header.Get("X-Secret") != "" {
				t.Errorf("Accept %q: got %v, want the stored fields", accept, answer.Header)
			}
			controlled := s.Do(t, asks(run, "", accept)).Want(http.StatusOK)
			events := controlled.Rest()
			testkit.CheckIDs(t, run, 1, events)
			testkit.EndsAs(t, events, "completed")
			if controlled.Header.Get("Content-Type") != "text/event-stream" || len(controlled.Events.Retries) != 1 {
				t.Errorf("Accept %q: got type %q and retries %v", accept, controlled.Header.Get("Content-Type"), controlled.Events.Retries)
			}
			if raw := string(controlled.Events.Raw()); !strings.HasPrefix(raw, "retry: ") || strings.Index(raw, "\n\n") < strings.Index(raw, "data:") {
				t.Errorf("Accept %q: the hint is no part of the first block: %q", accept, raw)
			}
		}
	})
}

// TestEnvelopes carry each frame's exact data with its place, and what it means.
func TestEnvelopes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(chatFrame("a"), chatFrame("b"), chatDone), openaiChat)
		run := s.ran(t, startChat())
		answer := s.Do(t, asks(run, "", acceptNDJSON)).Want(http.StatusOK)
		all := envelopes(t, answer.Body())
		if got := answer.Header.Get("Content-Type"); got != acceptNDJSON {
			t.Errorf("got type %q", got)
		}
		if len(all) != 4 {
			t.Fatalf("got %d envelopes, want 4", len(all))
		}
		for i, e := range all {
			if e.RunID != run || e.Seq != i+1 || e.EventID != testkit.Cursor(run, i+1) || e.Attempt != 1 || e.OccurredAt == "" {
				t.Errorf("envelope %d: got %+v", i, e)
			}
		}
		if want := strings.TrimSuffix(strings.TrimPrefix(chatFrame("a"), "data: "), "\n\n"); all[0].Data != want || all[0].Type != "text.delta" || all[0].Source != "upstream" {
			t.Errorf("got %+v", all[0])
		}
		if end := all[3]; end.Source != "gateway" || end.Type != "run.end" || *end.Event != "run.end" || !strings.Contains(end.Data, `"state":"completed"`) {
			t.Errorf("got %+v", end)
		}
		bare := envelopes(t, s.Do(t, asks(run, "", acceptNDJSON).Query("control", "off")).Want(http.StatusOK).Body())
		if len(bare) != 3 || bare[2].Source != "upstream" {
			t.Errorf("with control off got %+v, want upstream's frames alone", bare)
		}
	})
}

// TestAFailureAmongEnvelopesIsOne: the dialect's words go into an envelope, not
// as raw bytes between envelopes.
func TestAFailureAmongEnvelopesIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, breaks(chatFrame("a")), openaiChat)
		run := s.ran(t, startChat())
		all := envelopes(t, s.Do(t, asks(run, "", acceptNDJSON).Query("control", "off")).Want(http.StatusOK).Body())
		if len(all) != 2 || all[1].Type != "error" || all[1].EventID != testkit.Cursor(run, 2) || !strings.Contains(all[1].Data, `"error":{`) {
			t.Errorf("got %+v", all)
		}
	})
}

// TestLineRuns keep their bytes in their own format; line n is frame n.
func TestLineRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, lines(`{"a":1}`, "", `{"b":2}`, `{"c":3}`), generic)
		run := s.ran(t, startChat())
		const whole = "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n"
		for _, ask := range []testkit.Ask{asks(run, "", ""), asks(run, "", "").Query("control", "off"), asks(run, "", acceptNDJSON).Query("control", "off")} {
			answer := s.Do(t, ask).Want(http.StatusOK)
			if got := string(answer.Body()); got != whole || answer.Header.Get("Content-Type") != acceptNDJSON {
				t.Errorf("%s: got %q of type %q, want %q", ask.Path, got, answer.Header.Get("Content-Type"), whole)
			}
		}
		if got := string(s.Do(t, asks(run, testkit.Cursor(run, 1), "")).Body()); got != "{\"b\":2}\n{\"c\":3}\n" {
			t.Errorf("after line 1 got %q", got)
		}
		events := s.Do(t, asks(run, testkit.Cursor(run, 1), acceptSSE)).Want(http.StatusOK).Rest()
		testkit.CheckIDs(t, run, 2, events)
		if events[0].Data != `{"b":2}` {
			t.Errorf("got %q as SSE, want the line", events[0].Data)
		}
		testkit.EndsAs(t, events, "completed")
		bare := s.Do(t, asks(run, "", acceptSSE).Query("control", "off")).Want(http.StatusOK).Rest()
		if testkit.CheckIDs(t, run, 1, bare) != 4 {
			t.Errorf("as SSE with control off got %d events, want 3", len(bare))
		}
		if all := envelopes(t, s.Do(t, asks(run, "", acceptNDJSON)).Body()); len(all) != 4 || all[1].Data != `{"b":2}` {
			t.Errorf("got envelopes %+v", all)
		}
	})
}

// TestPlainBodiesExistInTheirOwnFormatAlone.
func TestPlainBodiesExistInTheirOwnFormatAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, answers(http.StatusOK, "text/plain", "hello"), generic)
		run := s.ran(t, startChat().Key("k-1"))
		for _, accept := range []string{"", "*/*"} {
			answer := s.Do(t, asks(run, "", accept)).Want(http.StatusOK)
			if got := string(answer.Body()); got != "hello" || answer.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("got %q of type %q", got, answer.Header.Get("Content-Type"))
			}
		}
		for _, accept := range []string{acceptSSE, acceptNDJSON, acceptJSON} {
			s.Do(t, asks(run, "", accept)).Problem(http.StatusNotAcceptable, "not_acceptable")
		}
	})
}

// TestAFormatThatNobodyHasIs406, unless something else will do, too.
func TestAFormatThatNobodyHasIs406(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, streams(data(1)...), generic)
		run := s.ran(t, startChat())
		for _, accept := range []string{"application/xml", "image/png, text/html", "text/event-stream;q=0"} {
			s.Do(t, asks(run, "", accept)).Problem(http.StatusNotAcceptable, "not_acceptable")
		}
		for accept, want := range map[string]string{
			"application/xml, */*;q=0.1": "text/event-stream", "application/xml, application/json": "application/json",
			"text/*": "text/event-stream", "application/*": "application/json", "application/ndjson": "application/x-ndjson",
		} {
			if got := s.Do(t, asks(run, "", accept)).Want(http.StatusOK).Header.Get("Content-Type"); got != want {
				t.Errorf("Accept %q: got type %q, want %q", accept, got, want)
			}
		}
	})
}

// TestHeadIsGetWithoutABody: the same status and fields, and no waiting for
// what is still to come.
func TestHeadIsGetWithoutABody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(3)...), generic)
		started := s.Do(t, startChat())
		started.Take(3)
		run := started.Run()
		for _, ask := range []testkit.Ask{asks(run, "", ""), own(run, ""), asks(run, "", acceptNDJSON), asks(run, "", acceptJSON), {Path: "/_runs/" + run}} {
			head := ask
			head.Method = http.MethodHead
			answer := s.Do(t, head).Want(http.StatusOK)
			if body := answer.Body(); len(body) > 0 || answer.Run() != run && ask.Path != "/_runs/"+run {
				t.Errorf("%s: got body %q of run %q", ask.Path, body, answer.Run())
			}
			if got, want := answer.Header.Get("Content-Type"), s.Do(t, ask).Header.Get("Content-Type"); got != want {
				t.Errorf("%s: got type %q, want %q", ask.Path, got, want)
			}
		}
		head := asks(run, testkit.Cursor(run, 9), acceptNDJSON)
		head.Method = http.MethodHead
		if got := s.Do(t, head).Status; got != http.StatusConflict {
			t.Errorf("got %d for a cursor of the future, want 409", got)
		}
	})
}

// TestFollowOffReplaysAndEnds also while the run is active, and properly.
func TestFollowOffReplaysAndEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSite(t, holds(data(3)...), generic)
		started := s.Do(t, startChat())
		started.Take(3)
		run := started.Run()
		for _, ask := range []testkit.Ask{asks(run, "", ""), own(run, ""), asks(run, "", acceptSSE)} {
			if events := s.Do(t, ask.Query("follow", "off")).Want(http.StatusOK).Rest(); len(events) != 3 {
				t.Errorf("%s: got %d events, want 3", ask.Path, len(events))
			}
		}
		if events := s.Do(t, asks(run, testkit.Cursor(run, 3), "").Query("follow", "off")).Want(http.StatusOK).Rest(); len(events) != 0 {
			t.Errorf("at the tail got %d events, want none", len(events))
		}
		s.Stop(t, run)
		testkit.EndsAs(t, s.Do(t, asks(run, "", "").Query("follow", "off")).Rest(), "cancelled")
	})
}
