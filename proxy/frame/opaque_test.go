package frame_test

import (
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestOpaquePiecesAreFramesAsTheyArrive(t *testing.T) {
	chunks := slices.Values([][]byte{[]byte("one\n"), nil, []byte("two"), {}, []byte("\n\nthree")})
	got := cutUntil(frame.Opaque, 0, chunks, false)
	want := []string{"one\n", "two", "\n\nthree"}
	if len(got.cuts) != len(want) || got.err != nil {
		t.Fatalf("got %+v, want %d frames and no error", got, len(want))
	}
	for i, f := range got.cuts {
		if f.raw != want[i] || f.clean != want[i] || f.data != want[i] || !f.hasData || f.dropped || f.hasID {
			t.Errorf("got %+v, want frame %q", f, want[i])
		}
		if got := parsed(frame.Opaque, []byte(want[i])); got != f {
			t.Errorf("got %+v from stored frame, want %+v", got, f)
		}
	}
}

func TestOpaquePiecesOverTheLimitAreSplit(t *testing.T) {
	got := cutBody(frame.Opaque, 4, whole([]byte("0123456789")))
	var frames []string
	for _, f := range got.cuts {
		frames = append(frames, f.raw)
	}
	if want := []string{"0123", "4567", "89"}; !slices.Equal(frames, want) || got.err != nil {
		t.Errorf("got %q, error %v; want %q", frames, got.err, want)
	}
}
