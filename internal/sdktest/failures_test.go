package sdktest

import (
	"cmp"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// What is said to clients, with words that every SDK hands on.
const (
	saysCut     = "upstream_truncated"
	saysStopped = "The run was stopped."
	saysExpired = "no longer stored"
	saysUnknown = "The outcome of the run is unknown."
)

// TestSDKsRaiseWhenTheAnswerBreaksOff: the backend's connection is reset, its
// body ends early, and somebody else stops the run.
func TestSDKsRaiseWhenTheAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: brokenSites(u)})
	eachSDK(t, func(t *testing.T, s sdk, calls []broken) {
		for _, b := range calls {
			base := g.URL(b.site())
			reset := u.Stage(b.scripts(base, testkit.Reset())...)
			b.breaksOff(t, "reset", s.do(t, job{Call: b.call, Base: base, Header: onStage(reset)}), saysCut)
			early := u.Stage(b.scripts(base, testkit.End())...)
			b.breaksOff(t, "early end", s.do(t, job{Call: b.call, Base: base, Header: onStage(early)}), saysCut)
			open := u.Stage(b.scripts(base, testkit.Hang())...)
			run := s.reach(t, job{Call: b.call, Base: base, Header: onStage(open)})
			if rec := g.Client(b.site()).As(subject).Stop(t, run); rec.State != "cancelled" {
				t.Errorf("%s: run is %s after the Stop", b.call, rec.State)
			}
			b.breaksOff(t, "stopped", npm.Result[outcome](t, s.Script), saysStopped)
		}
	})
}

// TestSDKsHearTheErrorsOfTheBackend as they hear them from the backend itself.
func TestSDKsHearTheErrorsOfTheBackend(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: brokenSites(u)})
	eachSDK(t, func(t *testing.T, s sdk, calls []broken) {
		for _, b := range calls {
			tell := func(base string) outcome {
				stage := u.Stage(b.scripts(base, testkit.Send(b.fault), testkit.End())...)
				return s.do(t, job{Call: b.call, Base: base, Header: onStage(stage)})
			}
			direct, through := tell(u.URL()), tell(g.URL(b.site()))
			sameOutcome(t, b.call, through, direct)
			if got := through.raised(); got != b.faultRaises {
				t.Errorf("%s: the SDK raised %q, want %q", b.call, got, b.faultRaises)
			}
			rec := ended(t, g.Client(b.site()).As(subject), through.run(t))
			if rec.State != "failed" || rec.Reason() != "upstream_error" {
				t.Errorf("%s: run is %s (%s), want failed", b.call, rec.State, rec.Reason())
			}
		}
	})
}

// TestSDKsRaiseWhenFramesHaveExpired lets them come back too late with the
// cursor of a run.
func TestSDKsRaiseWhenFramesHaveExpired(t *testing.T) {
	t.Parallel()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Global: "frame_retention 1s", Sites: brokenSites(u)})
	eachSDK(t, func(t *testing.T, s sdk, calls []broken) {
		c := g.Client(siteAuto).As(subject)
		for _, b := range calls {
			if b.sdk == replicate {
				continue // it asks where the answer is before it reads it, and so never comes back
			}
			stage := u.Stage(b.scripts("", testkit.End())...)
			again := job{Call: b.call, Base: g.URL(siteAuto), Header: onStage(stage)}
			first := s.do(t, again)
			cursor := testkit.Cursor(first.run(t), 1)
			testkit.Eventually(t, "the end of the frames", func() bool {
				back := testkit.Resume(first.run(t), cursor).With("Accept", "text/event-stream")
				return c.Do(t, back).Want(200).Next().Name == "stream_expired"
			})
			again.Header["Last-Event-ID"] = cursor
			before := stage.Starts() // some backends were asked how it ended
			b.breaksOff(t, "expired", s.do(t, again), saysExpired)
			if n := stage.Starts() - before; n != 0 {
				t.Errorf("%s: got %d more upstream calls, want none", b.call, n)
			}
		}
	})
}

// raisedForALostConnection is what calls raise that do not raise what fetch
// does.
var raisedForALostConnection = map[string]string{
	"openai chat.stream": "OpenAIError", "openai responses.stream": "OpenAIError", "openai threads.stream": "OpenAIError",
	"anthropic messages.stream": "AnthropicError", "gemini interactions.stream": "APIConnectionError",
}

// TestSDKsRaiseWhenTheirGatewayDies: the connection is lost, and who comes back
// to another gateway hears that nobody knows the outcome.
func TestSDKsRaiseWhenTheirGatewayDies(t *testing.T) {
	t.Parallel()
	redis, u := testkit.StartRedis(t), testkit.NewUpstream(t)
	setup := testkit.Setup{Global: "store redis " + redis.URL() + "\nlease 2s", Sites: brokenSites(u)}
	dies, lives := testkit.Start(t, setup), testkit.Start(t, setup)
	type reader struct {
		of    broken
		sdk   sdk
		again job // at the other gateway
		stage *testkit.Stage
	}
	var readers []reader
	for _, b := range brokenCalls(t) {
		r := reader{of: b, sdk: start(t, b.sdk), stage: u.Stage(b.scripts(dies.URL(b.site()), testkit.Hang())...)}
		r.sdk.begin(t, job{Call: b.call, Base: dies.URL(b.site()), Header: onStage(r.stage), After: 1})
		readers = append(readers, r)
	}
	for i, r := range readers {
		readers[i].again = job{Call: r.of.call, Base: lives.URL(siteAuto), Header: onStage(r.stage)}
		readers[i].again.Header["Last-Event-ID"] = testkit.Cursor(r.sdk.reached(t), 0)
	}
	dies.Crash()
	for _, r := range readers {
		o, want := npm.Result[outcome](t, r.sdk.Script), cmp.Or(raisedForALostConnection[r.of.name()], "TypeError")
		if o.raised() != want {
			t.Errorf("%s: the SDK raised %+v, want %s", r.of.name(), o.Error, want)
		}
	}
	for _, r := range readers {
		if r.of.sdk == replicate {
			continue // its SDK never comes back
		}
		r.of.breaksOff(t, "owner lost", r.sdk.do(t, r.again), saysUnknown)
		if r.stage.Starts() != 1 {
			t.Errorf("%s: got %d upstream calls, want 1", r.of.name(), r.stage.Starts())
		}
	}
}
