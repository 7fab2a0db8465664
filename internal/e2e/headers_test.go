package e2e

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func TestCase01HeadersBeforeFirstByte(t *testing.T) {
	t.Parallel()
	for version, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			c, stage := on(t, siteGeneric, caseScript(t, "01-headers-before-first-byte", "upstream.jsonl").Gated(gate))
			c.HTTP2 = http2
			start := c.Do(t, generate("conv-1")).Want(200) // while upstream is silent
			if n := stage.Call(t, 1).Wrote(); n != 0 {
				t.Fatalf("upstream sent %d bytes before its gate opened", n)
			}
			checkStreamHead(t, start)
			close(gate)
			events := start.Rest()
			testkit.CheckIDs(t, start.Run(), 1, events)
			wantPairs(t, events, []testkit.Pair{{"message", "hello"}})

			again := c.Resume(t, start.Run(), "").Want(200)
			checkStreamHead(t, again)
			replay := again.Rest()
			wantPairs(t, replay, []testkit.Pair{{"message", "hello"}})
			testkit.EndsAs(t, replay, "completed")
			if stage.Starts() != 1 {
				t.Errorf("got %d upstream calls, want 1", stage.Starts())
			}
		})
	}
}

func checkStreamHead(t *testing.T, a *testkit.Answer) {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got content type %q, want text/event-stream", got)
	}
	if a.Run() == "" {
		t.Error("got no X-Run-Id")
	}
	if got := a.Header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("got X-Accel-Buffering %q, want no", got)
	}
	control := a.Header.Get("Cache-Control")
	if !strings.Contains(control, "no-store") || !strings.Contains(control, "no-transform") {
		t.Errorf("got Cache-Control %q, want no-store and no-transform in it", control)
	}
	if got := a.Header.Values("Content-Length"); len(got) != 0 {
		t.Errorf("got Content-Length %q, want none", got)
	}
}

func TestCase03ContentTypeParameters(t *testing.T) {
	t.Parallel()
	lines := bufio.NewScanner(strings.NewReader(string(caseBytes(t, "03-content-type-parameters", "content-types.txt"))))
	for lines.Scan() {
		kind, contentType, _ := strings.Cut(lines.Text(), "\t")
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			one, two := "data: one\n\n", "data: two\n\n"
			if strings.Contains(contentType, "json") {
				one, two = "{\"n\":1}\n", "{\"n\":2}\n"
			}
			gate := make(chan struct{})
			script := testkit.Script{
				testkit.Header("Content-Type", contentType), testkit.FlushHeaders(),
				testkit.Send(one), testkit.Gate(gate), testkit.Send(two), testkit.End(),
			}
			c, _ := on(t, siteGeneric, script)
			a := c.Do(t, generate("")).Want(200)
			if got := a.Header.Get("Content-Type"); got != contentType {
				t.Errorf("got content type %q, want %q", got, contentType)
			}
			if kind == "stream" {
				checkTwoRecords(t, c, a, gate, one, two)
				return
			}
			close(gate)
			if got, want := string(a.Body()), one+two; got != want {
				t.Errorf("got body %q, want %q", got, want)
			}
		})
	}
}

// checkTwoRecords reads a stream of two records, the first before upstream
// sends the second.
func checkTwoRecords(t *testing.T, c testkit.Client, a *testkit.Answer, gate chan struct{}, one, two string) {
	t.Helper()
	if a.Run() == "" {
		t.Error("got no X-Run-Id, want a run")
	}
	if strings.HasPrefix(one, "data:") {
		first := a.Next()
		close(gate)
		wantPairs(t, append([]testkit.Event{first}, a.Rest()...), []testkit.Pair{{"message", "one"}, {"message", "two"}})
	} else {
		first := make([]byte, len(one))
		if _, err := a.Read(first); err != nil || string(first) != one {
			t.Fatalf("got %q and %v, want %q", first, err, one)
		}
		close(gate)
		if got := string(a.Body()); got != two {
			t.Errorf("got %q after the first line, want %q", got, two)
		}
	}
	if rec := c.Snapshot(t, a.Run()); rec.Frames.LastSeq == nil || *rec.Frames.LastSeq != 2 {
		t.Errorf("record has frames %+v, want 2", rec.Frames)
	}
}

func TestCase05UpstreamGzip(t *testing.T) {
	t.Parallel()
	const name = "05-upstream-gzip"
	want := expected[struct{ Frames []testkit.Pair }](t, name).Frames
	gate := make(chan struct{})
	c, stage := on(t, siteGeneric, caseScript(t, name, "upstream.jsonl").Gated(gate))
	a := c.Do(t, generate("").With("Accept-Encoding", "gzip")).Want(200)
	var events []testkit.Event
	for range want {
		events = append(events, a.Next()) // before the next piece is sent
		gate <- struct{}{}
	}
	close(gate)
	events = append(events, a.Rest()...)
	testkit.CheckIDs(t, a.Run(), 1, events)
	wantPairs(t, events, want)
	if got := stage.Call(t, 1).Header.Get("Accept-Encoding"); got != "" && got != "identity" {
		t.Errorf("upstream was asked for encoding %q, want identity or none", got)
	}
	if got := a.Header.Get("Content-Encoding"); got != "" {
		t.Errorf("got Content-Encoding %q, want none", got)
	}
	again := c.Resume(t, a.Run(), "").Want(200)
	if got := again.Header.Get("Content-Encoding"); got != "" {
		t.Errorf("resume has Content-Encoding %q, want none", got)
	}
	wantPairs(t, again.Rest(), want)
}

// TestAStopReachesARunThatHasNoHeadersYet keeps a run from hanging on an
// upstream that never answers.
func TestAStopReachesARunThatHasNoHeadersYet(t *testing.T) {
	t.Parallel()
	c, stage := on(t, siteAuto, testkit.Script{testkit.Hang()})
	pending := c.Begin(t, testkit.Chat("conv-1", "go"))
	answers := make(chan *testkit.Answer, 1)
	go func() {
		a, err := pending.Head()
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	call := stage.Call(t, 1)
	run := c.Active(t, "conv-1").Named()
	stopped := time.Now()
	if rec := c.Stop(t, run); rec.State != "cancelled" {
		t.Errorf("Stop left the run %s, want cancelled", rec.State)
	}
	t.Logf("upstream was closed %v after the Stop", call.AwaitClose(t).Sub(stopped))
	if a := <-answers; a != nil {
		a.Problem(http.StatusConflict, "run_cancelled")
	}
}
