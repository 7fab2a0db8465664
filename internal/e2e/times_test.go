package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// commentTimes are the seconds from begin at which the comments of an answer
// arrived.
func commentTimes(begin time.Time, a *testkit.Answer) []int {
	var out []int
	for _, c := range a.Events.Comments {
		out = append(out, int(c.At.Sub(begin)/time.Second))
	}
	return out
}

// reading is one connection of a keepalive case and when it has to show a sign
// of life.
type reading struct {
	open func() *testkit.Answer
	at   time.Duration
	want []int
}

// TestCase65KeepaliveTimes takes the case's own seconds, in a bubble where they
// cost nothing and are exact.
func TestCase65KeepaliveTimes(t *testing.T) {
	for file, c := range map[string]struct{ start, resume, attach []int }{
		"silent-start": {start: []int{15, 30, 45, 60}, resume: []int{17, 32, 47, 62}, attach: []int{18, 33, 48, 63}},
		"gap":          {start: []int{25, 40}, resume: []int{25, 40}, attach: []int{25, 40}},
	} {
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage := (&testkit.Upstream{}).Stage(caseScript(t, "65-keepalive-times", file+".jsonl"))
				client := inProcess(t, stage)
				ask := generate("conv-1").Key("k-1")
				begin := time.Now()
				start := client.Do(t, ask).Want(200)
				readings := []reading{
					{func() *testkit.Answer { return start }, 0, c.start},
					{func() *testkit.Answer { return client.Resume(t, start.Run(), "").Want(200) }, 2 * time.Second, c.resume},
					{func() *testkit.Answer { return client.Do(t, ask).Want(200) }, 3 * time.Second, c.attach},
				}
				var all sync.WaitGroup
				for _, r := range readings {
					all.Go(func() { r.check(t, begin) })
				}
				all.Wait()
			})
		})
	}
}

func (r *reading) check(t *testing.T, begin time.Time) {
	t.Helper()
	time.Sleep(r.at) // inside the bubble
	a := r.open()
	a.Rest()
	if got := commentTimes(begin, a); !slices.Equal(got, r.want) {
		t.Errorf("opened after %v: comments came at %v s, want %v", r.at, got, r.want)
	}
	if n := strings.Count(string(a.Events.Raw()), keepalive); n != len(r.want) {
		t.Errorf("%d comments have the keepalive's form, want %d", n, len(r.want))
	}
}

// TestCase65WithoutHeaders is an upstream that answers after 40 s. Without
// early_headers the client waits for it, so that it gets upstream's own
// status; a proxy in front that gives up after 60 or 100 s may cut it, and the
// retry attaches. With early_headers the answer begins at once.
func TestCase65WithoutHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		early    time.Duration
		head     int
		comments []int
	}{
		"early headers off":  {0, 40, nil},
		"early headers 15 s": {15 * time.Second, 15, []int{30}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stage := (&testkit.Upstream{}).Stage(caseScript(t, "65-keepalive-times", "no-headers.jsonl"))
				client := inProcess(t, stage, func(cfg *proxy.Config) { cfg.EarlyHeaders = c.early })
				begin := time.Now()
				a := client.Do(t, generate("conv-1")).Want(200)
				if got := int(a.At.Sub(begin) / time.Second); got != c.head {
					t.Errorf("headers came after %d s, want %d", got, c.head)
				}
				wantPairs(t, a.Rest(), []testkit.Pair{{"message", "x"}})
				got := commentTimes(begin, a)
				if c.early > 0 && len(got) > 0 && got[0] == 15 {
					got = got[1:] // a sign of life together with the headers is fine
				}
				if !slices.Equal(got, c.comments) {
					t.Errorf("comments came at %v s, want %v", got, c.comments)
				}
			})
		})
	}
}

// TestCase13ResumeBeforeFirstTokenTimes is the case with its own 20 seconds.
func TestCase13ResumeBeforeFirstTokenTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := (&testkit.Upstream{}).Stage(caseScript(t, "13-resume-before-first-token", "upstream.jsonl"))
		client := inProcess(t, stage)
		begin := time.Now()
		a := client.Do(t, testkit.Chat("conv-1", "go")).Want(200)
		second := client.Resume(t, a.Run(), "").Want(200)
		time.Sleep(2 * time.Second)
		third := client.Resume(t, a.Run(), "").Want(200)
		if now := client.Active(t, "conv-1"); now.Status != "running" || now.Named() != a.Run() {
			t.Errorf("conversation is %s with run %q, want running with %s", now.Status, now.Named(), a.Run())
		}
		time.Sleep(time.Second)
		a.Close()
		var all sync.WaitGroup
		for reader, signs := range map[*testkit.Answer][]int{second: {15}, third: {17}} {
			all.Go(func() {
				events := reader.Rest()
				testkit.CheckIDs(t, a.Run(), 1, events)
				wantPairs(t, events, []testkit.Pair{token(1), token(2), token(3), {"message", "[DONE]"}})
				if got := int(events[0].At.Sub(begin) / time.Second); got != 20 {
					t.Errorf("first frame came after %d s, want 20", got)
				}
				if got := commentTimes(begin, reader); !slices.Equal(got, signs) {
					t.Errorf("comments came at %v s, want %v", got, signs)
				}
			})
		}
		all.Wait()
	})
}

// TestCase14ResumeMinutesAfterCompletion comes back until the frames are gone,
// and once more.
func TestCase14ResumeMinutesAfterCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := (&testkit.Upstream{}).Stage(caseScript(t, "10-cut-everywhere", "upstream.jsonl"))
		client := inProcess(t, stage)
		a := client.Do(t, testkit.Chat("conv-1", "go").Key("k-1")).Want(200)
		live := a.Rest()
		ended := time.Now()
		for _, after := range []time.Duration{time.Second, time.Minute, 590 * time.Second} {
			time.Sleep(time.Until(ended.Add(after)))
			events := client.Resume(t, a.Run(), "").Want(200).Rest()
			testkit.CheckIDs(t, a.Run(), 1, events)
			testkit.EndsAs(t, events, "completed")
			wantPairs(t, events, testkit.Pairs(live))
			// The end of case 27: a keyed retry long after the end.
			wantPairs(t, client.Do(t, testkit.Chat("conv-1", "go").Key("k-1")).Want(200).Rest(), testkit.Pairs(live))
			if now := time.Since(ended); now != after {
				t.Errorf("replays ended %v after the run, want %v: they must not wait", now, after)
			}
		}
		time.Sleep(11 * time.Second)
		gone := client.Resume(t, a.Run(), testkit.Cursor(a.Run(), 7)).Want(200).Rest()
		if len(gone) != 1 || gone[0].Name != "stream_expired" {
			t.Fatalf("601 s after the end got %d events, want stream_expired alone", len(gone))
		}
		client.Resume(t, a.Run(), gone[0].ID).Want(http.StatusNoContent)
		if rec := client.Snapshot(t, a.Run()); rec.Snapshot == nil || !rec.Snapshot.Complete {
			t.Errorf("got snapshot %+v, want it complete", rec.Snapshot)
		}
		time.Sleep(24 * time.Hour)
		client.Do(t, testkit.Ask{Path: "/_runs/" + a.Run()}).Want(http.StatusNotFound)
		if stage.Starts() != 1 {
			t.Errorf("got %d upstream calls, want 1", stage.Starts())
		}
	})
}
