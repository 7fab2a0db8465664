package e2e

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// uiStream is an answer of the AI SDK, in two parts around a pause.
func uiStream(gate chan struct{}) testkit.Script {
	return testkit.Script{
		testkit.Header("Content-Type", "text/event-stream"), testkit.Header("x-vercel-ai-ui-message-stream", "v1"), testkit.FlushHeaders(),
		testkit.Send("data: {\"type\":\"start\"}\n\ndata: {\"type\":\"text-start\",\"id\":\"1\"}\n\ndata: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"hi\"}\n\n"),
		testkit.Gate(gate),
		testkit.Send("data: {\"type\":\"text-end\",\"id\":\"1\"}\n\ndata: {\"type\":\"finish\",\"finishReason\":\"stop\"}\n\ndata: [DONE]\n\n"), testkit.End(),
	}
}

// TestUseChatResumesWithoutBackendCode is useChat({resume: true}) in front of a
// backend that knows nothing of resuming: it gets its stream from the first
// frame, or 204.
func TestUseChatResumesWithoutBackendCode(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	notFound := testkit.Script{testkit.Status(http.StatusNotFound), testkit.Header("Content-Type", "text/plain"), testkit.FlushHeaders(), testkit.Send("no"), testkit.End()}
	c, stage := on(t, siteAuto, uiStream(gate), notFound)
	resume := testkit.Ask{Path: "/api/chat/chat-1/stream"}
	a := c.Do(t, aiSDK).Want(200)
	live := a.Take(3)
	a.Drop()
	back := c.Do(t, resume).Want(200)
	if back.Run() != a.Run() || back.Header.Get("x-vercel-ai-ui-message-stream") != "v1" {
		t.Errorf("resume got run %s with headers %v, want %s and the stream's own header", back.Run(), back.Header, a.Run())
	}
	close(gate)
	events := back.Rest()
	testkit.CheckIDs(t, a.Run(), 1, events)
	if len(events) != 6 || events[2].Data != live[2].Data || events[5].Data != "[DONE]" {
		t.Errorf("got %v, want the six frames alone", testkit.Pairs(events))
	}
	stage.Call(t, 1).AwaitEnd(t)
	testkit.Eventually(t, "the end of the run", func() bool { return c.Active(t, "chat-1").Status == "idle" })
	c.Do(t, resume).Want(http.StatusNoContent)
	c.As("user-b").Do(t, resume).Want(http.StatusNoContent)
}

// TestScriptsResumeWithoutACookieJar is curl against a bare directive: its
// credential makes it the same somebody each time.
func TestScriptsResumeWithoutACookieJar(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	u.Stage(caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0))
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(u.Addr())}})
	for name, credential := range map[string][2]string{
		"Authorization": {"Authorization", "Bearer sk-1"},
		"x-api-key":     {"x-api-key", "sk-2"},
	} {
		t.Run(name, func(t *testing.T) {
			c := g.Client("").With(credential[0], credential[1])
			a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
			live := a.Rest()
			wantPairs(t, c.Resume(t, a.Run(), "").Want(200).Rest(), testkit.Pairs(live))
			if rec := c.Snapshot(t, a.Run()); rec.State != "completed" {
				t.Errorf("run is %s, want completed", rec.State)
			}
			c.With(credential[0], credential[1]+"x").Do(t, testkit.Resume(a.Run(), "")).Want(http.StatusNotFound)
			g.Client("").Do(t, testkit.Resume(a.Run(), "")).Want(http.StatusNotFound)
		})
	}
}

// TestABrowserIsItsCookie starts with a cookie of ours, resumes with it, and
// is refused across sites.
func TestABrowserIsItsCookie(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	stage := u.Stage(caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0))
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(u.Addr())}})
	visitor := g.Client("").With("Sec-Fetch-Site", "same-origin")
	first := visitor.Do(t, testkit.Chat("", "go")).Want(200)
	cookie, _, _ := strings.Cut(first.Header.Get("Set-Cookie"), ";")
	if cookie == "" {
		t.Fatal("a browser's first run sets no cookie")
	}
	live := first.Rest()
	browser := visitor.With("Cookie", cookie)
	wantPairs(t, browser.Resume(t, first.Run(), "").Want(200).Rest(), testkit.Pairs(live))
	visitor.Do(t, testkit.Resume(first.Run(), "")).Want(http.StatusNotFound)
	if got := stage.Call(t, 1).Header.Get("Cookie"); got != "" {
		t.Errorf("upstream got cookie %q, want none", got)
	}
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.test"} {
		attacker := g.Client("").With("Cookie", cookie).With(name, value)
		attacker.Do(t, testkit.Chat("", "go")).Problem(http.StatusForbidden, "csrf_rejected")
		attacker.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + first.Run() + "/cancel"}).Problem(http.StatusForbidden, "csrf_rejected")
	}
	if stage.Starts() != 1 {
		t.Errorf("got %d upstream calls, want 1", stage.Starts())
	}
}

// TestFetchEventSourceRepeatsItsPost re-POSTs the same bytes with the last id
// it saw, on any path where it began, and never pays twice.
func TestFetchEventSourceRepeatsItsPost(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	c, stage := on(t, siteAuto, caseScript(t, "27-retry-attaches", "upstream.jsonl").Gated(gate))
	ask := testkit.Chat("", "go").With("Accept", "text/event-stream")
	a := c.Do(t, ask).Want(200)
	events := a.Take(1)
	for len(events) < 4 {
		gate <- struct{}{}
		events = append(events, a.Next())
		a.Drop()
		a = c.Do(t, ask.With("Last-Event-ID", events[len(events)-1].ID)).Want(200)
	}
	close(gate)
	events = append(events, a.Rest()...)
	testkit.CheckIDs(t, a.Run(), 1, events)
	if len(events) != 11 || stage.Starts() != 1 {
		t.Errorf("got %d events from %d upstream calls, want 11 from 1", len(events), stage.Starts())
	}
	over := c.Do(t, ask.With("Last-Event-ID", events[10].ID))
	over.Want(http.StatusNoContent)
	c.Do(t, testkit.Chat("", "something else").With("Last-Event-ID", events[3].ID)).Want(http.StatusUnprocessableEntity)
}

// TestARunIsReadInEveryForm compares the forms of a run's events with each
// other.
func TestARunIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	c, stage := on(t, siteAuto, caseScript(t, "27-retry-attaches", "upstream.jsonl").Scaled(0))
	a := c.Do(t, testkit.Chat("conv-1", "go")).Want(200)
	raw := a.Body()
	stage.Call(t, 1).AwaitEnd(t)
	run := a.Run()

	plain := c.Do(t, testkit.Resume(run, "").Query("control", "off")).Want(200).Body()
	if !bytes.Equal(plain, raw) {
		t.Errorf("without control got %q, want the live bytes %q", plain, raw)
	}
	var envelopes []testkit.Envelope
	lines := c.Do(t, testkit.Resume(run, "").With("Accept", "application/x-ndjson")).Want(200).Body()
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) > 0 {
			envelopes = append(envelopes, testkit.Decode[testkit.Envelope](t, line))
		}
	}
	checkEnvelopes(t, run, envelopes)

	var pages []testkit.Envelope
	ask := testkit.Resume(run, "").With("Accept", "application/json").Query("limit", "5")
	for after := ""; ; {
		page := testkit.Decode[testkit.Page](t, c.Do(t, ask.Query("after", after)).Want(200).Body())
		if len(page.Events) > 5 || page.State != "completed" {
			t.Fatalf("got a page of %d events in state %s, want 5 at most and completed", len(page.Events), page.State)
		}
		pages = append(pages, page.Events...)
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if !slices.EqualFunc(pages, envelopes, func(a, b testkit.Envelope) bool { return a.EventID == b.EventID && a.Data == b.Data }) {
		t.Errorf("pages hold %d events, want the %d of the other form", len(pages), len(envelopes))
	}
}

// checkEnvelopes looks at ten tokens, the end marker and run.end.
func checkEnvelopes(t *testing.T, run string, envelopes []testkit.Envelope) {
	t.Helper()
	if len(envelopes) != 12 {
		t.Fatalf("got %d envelopes, want 12", len(envelopes))
	}
	for i, e := range envelopes {
		if e.RunID != run || e.Seq != i+1 || e.EventID != testkit.Cursor(run, i+1) || e.Attempt != 1 {
			t.Errorf("envelope %d is %+v, want number %d", i, e, i+1)
		}
		if i < 10 && (e.Type != "text.delta" || e.Source != "upstream" || e.Data != token(i + 1)[1]) {
			t.Errorf("envelope %d is %+v, want a text.delta with the frame's data", i, e)
		}
	}
	if last := envelopes[11]; last.Source != "gateway" || last.Event == nil || *last.Event != "run.end" {
		t.Errorf("last envelope is %+v, want run.end by the gateway", last)
	}
}
