package proxy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// TestANoteTellsWhatCameOfASteer, and when nobody will know it any more.
func TestANoteTellsWhatCameOfASteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := digest([]byte("left"))
		begun := &steerNote{Body: body, At: time.Now()}
		invalid := refuse(codeUpstreamInvalid, "The backend did not take the input.").with("upstream_status", 409)
		told := func(n *steerNote, body runregistry.Digest) code {
			if err := n.result(body); err != nil {
				return problemOf(err).Code
			}
			return "accepted"
		}
		if err := begun.result(digest([]byte("right"))); !errors.Is(err, runregistry.ErrKeyReused) {
			t.Errorf("another body: got %v, want %v", err, runregistry.ErrKeyReused)
		}
		for _, tt := range []struct {
			note *steerNote
			wait time.Duration
			want code
		}{
			{begun.ended(nil), 0, "accepted"},
			{begun.ended(invalid), 0, codeUpstreamInvalid},
			{begun, steerDoubt - time.Second, codeInProgress},
			{begun, time.Second, codeUpstreamTimeout},
			{begun.ended(nil), time.Hour, "accepted"},
		} {
			time.Sleep(tt.wait)
			if got := told(tt.note, body); got != tt.want {
				t.Errorf("%+v: got %s, want %s", tt.note, got, tt.want)
			}
		}
	})
}
