package sdktest

import (
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
			b.breaksOff(t, "expired", s.do(t, again), saysExpired)
			if stage.Starts() != 1 {
				t.Errorf("%s: got %d upstream calls, want 1", b.call, stage.Starts())
			}
		}
	})
}

// TestSDKsRaiseWhenTheirGatewayDies: the connection is lost, and who comes back
// to another gateway hears that nobody knows the outcome.
func TestSDKsRaiseWhenTheirGatewayDies(t *testing.T) {
	t.Parallel()
	redis, u := testkit.StartRedis(t), testkit.NewUpstream(t)
	setup := testkit.Setup{Global: "store redis " + redis.URL() + "\nlease 2s", Sites: brokenSites(u)}
	dies, lives := testkit.Start(t, setup), testkit.Start(t, setup)
	type reader struct {
		broken
		sdk
		job
		*testkit.Stage
	}
	var readers []reader
	for _, b := range brokenCalls(t) {
		r := reader{broken: b, sdk: start(t, b.sdk), Stage: u.Stage(b.scripts(dies.URL(b.site()), testkit.Hang())...)}
		r.job = job{Call: b.call, Base: dies.URL(b.site()), Header: onStage(r.Stage)}
		r.job.Header["Last-Event-ID"] = testkit.Cursor(r.reach(t, r.job), 0)
		readers = append(readers, r)
	}
	dies.Crash()
	for _, r := range readers {
		if o := npm.Result[outcome](t, r.Script); o.Error == nil {
			t.Errorf("%s: the SDK takes half an answer for a whole one: %.400q", r.call, o.Chunks)
		}
	}
	for _, r := range readers {
		if r.broken.sdk != replicate { // whose SDK never comes back
			r.job.Base = lives.URL(siteAuto)
			r.breaksOff(t, "owner lost", r.do(t, r.job), saysUnknown)
			if r.Starts() != 1 {
				t.Errorf("%s: got %d upstream calls, want 1", r.call, r.Starts())
			}
		}
	}
}
