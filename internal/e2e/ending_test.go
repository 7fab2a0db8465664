package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestCase25CleanEOFWithoutEndMarker(t *testing.T) {
	t.Parallel()
	const name = "25-clean-eof-without-end-marker"
	chat := testkit.Chat("conv-1", "go")
	for file, c := range map[string]struct {
		ask    testkit.Ask
		frames int
		error  string // how the dialect's error frame begins
	}{
		"openai-chat":      {chat, 2, `{"error":`},
		"half-event":       {chat, 2, `{"error":`},
		"openai-responses": {testkit.Ask{Path: "/v1/responses", Body: `{"model":"m","stream":true,"input":"go"}`}, 3, `{`},
		"anthropic": {
			testkit.Ask{Path: "/v1/messages", Body: `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"go"}]}`},
			3, `{"type":"error"`,
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			client, stage := on(t, siteAuto, caseScript(t, name, file+".jsonl").Scaled(0.1))
			a := client.Do(t, c.ask.Key("k-1")).Want(200)
			live := a.Rest()
			testkit.CheckIDs(t, a.Run(), 1, live)
			if len(live) != c.frames+1 || !strings.HasPrefix(live[len(live)-1].Data, c.error) {
				t.Fatalf("got %d events, the last %.200q, want %d frames and one that begins %s", len(live), live[len(live)-1].Data, c.frames, c.error)
			}
			checkTruncated(t, client, a.Run(), testkit.Pairs(live[:c.frames]))

			again := client.Do(t, c.ask.Key("k-1")).Want(200)
			if again.Run() != a.Run() || again.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("retry got run %s (replayed %q), want %s", again.Run(), again.Header.Get("Idempotent-Replayed"), a.Run())
			}
			wantPairs(t, again.Rest(), testkit.Pairs(live))
			if stage.Starts() != 1 {
				t.Errorf("got %d upstream calls, want 1", stage.Starts())
			}
		})
	}
}

// checkTruncated looks at the record and a replay of a run whose upstream
// broke off after the text "tok1 tok2 ".
func checkTruncated(t *testing.T, c testkit.Client, run string, frames []testkit.Pair) {
	t.Helper()
	rec := c.Snapshot(t, run)
	if rec.State != "failed" || rec.Reason() != "upstream_truncated" {
		t.Errorf("run is %s (%s), want failed (upstream_truncated)", rec.State, rec.Reason())
	}
	if rec.Snapshot == nil || rec.Snapshot.Text != "tok1 tok2 " || rec.Snapshot.Complete {
		t.Errorf("got snapshot %+v, want the two tokens and not complete", rec.Snapshot)
	}
	events := c.Resume(t, run, "").Want(200).Rest()
	testkit.CheckIDs(t, run, 1, events)
	testkit.EndsAs(t, events, "failed")
	wantPairs(t, events, frames)
}

func TestCase26UpstreamDiesMidStream(t *testing.T) {
	t.Parallel()
	const name = "26-upstream-dies-mid-stream"
	for _, file := range []string{"reset", "cut"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c, _ := on(t, siteAuto, caseScript(t, name, file+".jsonl").Scaled(0.2))
			a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
			live := a.Rest()
			testkit.CheckIDs(t, a.Run(), 1, live)
			if len(live) != 3 {
				t.Fatalf("got %d events, want two tokens and an error", len(live))
			}
			wantPairs(t, live[:2], []testkit.Pair{token(1), token(2)})
			if raw := string(a.Events.Raw()); strings.Contains(raw, "<") || strings.Contains(raw, "Internal Server Error") || strings.Contains(raw, "goroutine") {
				t.Errorf("body has more than an event stream in it: %q", raw)
			}
			checkTruncated(t, c, a.Run(), testkit.Pairs(live[:2]))
		})
	}
	t.Run("reset before headers", func(t *testing.T) {
		t.Parallel()
		c, stage := on(t, siteAuto, caseScript(t, name, "reset-before-headers.jsonl"))
		a := c.Do(t, testkit.Chat("conv-1", "go")).Want(http.StatusBadGateway)
		p := testkit.Decode[testkit.Problem](t, a.Body())
		if a.Header.Get("Content-Type") != "application/problem+json" || p.Status != http.StatusBadGateway || p.Code == "" {
			t.Errorf("got %+v, want a problem with a code", p)
		}
		if strings.Contains(p.Detail, "127.0.0.1") || a.Header.Get("x-should-retry") != "false" {
			t.Errorf("problem shows %q and x-should-retry %q, want no address and false", p.Detail, a.Header.Get("x-should-retry"))
		}
		if now := c.Active(t, "conv-1"); now.Status != "idle" || stage.Starts() != 1 {
			t.Errorf("conversation is %s after %d calls, want idle after 1", now.Status, stage.Starts())
		}
	})
	t.Run("status 500", func(t *testing.T) {
		t.Parallel()
		c, _ := on(t, siteAuto, caseScript(t, name, "http-500.jsonl"))
		a := c.Do(t, testkit.Chat("conv-1", "go")).Want(500)
		if got, want := string(a.Body()), `{"error":"dial internal-host-17:9000 failed"}`; got != want {
			t.Errorf("got body %q, want upstream's own %q", got, want)
		}
		now := c.Active(t, "conv-1")
		if now.Status != "idle" {
			t.Errorf("conversation is %s, want idle", now.Status)
		}
	})
}

// TestAGenericStreamThatBreaksIsAborted keeps clients that have no error frame
// from taking a broken stream for a whole one.
func TestAGenericStreamThatBreaksIsAborted(t *testing.T) {
	t.Parallel()
	c, stage := on(t, siteGeneric, caseScript(t, "26-upstream-dies-mid-stream", "reset.jsonl").Scaled(0.2))
	a := c.Do(t, generate("conv-1")).Want(200)
	live := a.RestBroken()
	testkit.CheckIDs(t, a.Run(), 1, live)
	wantPairs(t, live, []testkit.Pair{token(1), token(2)})

	back := c.Do(t, generate("conv-1").With("Last-Event-ID", live[1].ID)).Want(200)
	events := back.Rest()
	testkit.CheckIDs(t, a.Run(), 3, events)
	testkit.EndsAs(t, events, "failed")
	if len(events) != 1 || stage.Starts() != 1 {
		t.Errorf("got %d events and %d upstream calls, want run.end alone and 1", len(events), stage.Starts())
	}
}
