package e2e

import (
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestCase14LostHintsCostTimeNeverAFrame is case 14 (b): twenty viewers at a
// gateway that hears nothing any more of what the owner of their run announces.
func TestCase14LostHintsCostTimeNeverAFrame(t *testing.T) {
	const viewers = 20
	p := startGateways(t, 1, "")
	link := testkit.NewLink(t, p.redis.Addr())
	deaf := p.start(t, "redis://"+link.Addr(), "")
	gate := make(chan struct{})
	stage := p.upstream.Stage(gatedGeneric(gate, 4))
	a := p.client(0, siteGeneric, stage).Do(t, generate("conv-1")).Want(200)
	a.Next()
	there := deaf.Client(siteGeneric).As("user-a").On(stage)
	var attached []*testkit.Answer
	for range viewers {
		v := there.Resume(t, a.Run(), "").Want(200)
		v.Next()
		attached = append(attached, v)
	}
	gate <- struct{}{}
	a.Next()
	for _, v := range attached {
		v.Next() // by a hint
	}
	link.Mute()
	began := time.Now()
	close(gate)
	checkCounted(t, a.Run(), 3, a.Rest())
	for _, v := range attached {
		rest := v.Rest()
		checkCounted(t, a.Run(), 3, rest)
		if n := len(testkit.Content(rest)); n != 2 {
			t.Errorf("a viewer got %d frames without hints, want 2", n)
		}
		testkit.EndsAs(t, rest, "completed")
	}
	if took := time.Since(began); took > bounded {
		t.Errorf("viewers got the end %v after it, want %v at most", took, bounded)
	}
}
