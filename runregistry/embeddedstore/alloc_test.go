package embeddedstore_test

import (
	"bytes"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// framesPerRun is how many calls are measured together, so that the few
// allocations of chunks show as a small part of one.
const framesPerRun = 2000

func TestAppendAllocatesChunksOnly(t *testing.T) {
	for name, o := range map[string]embeddedstore.Options{"memory": {}, "durable": {Path: t.TempDir()}} {
		t.Run(name, func(t *testing.T) { appendAllocatesChunksOnly(t, o) })
	}
}

func appendAllocatesChunksOnly(t *testing.T, o embeddedstore.Options) {
	t.Helper()
	s := openWith(t, o)
	ctx := t.Context()
	l := running(t, s, runregistry.LogLimits{Bytes: 1 << 20})
	w, err := s.Watch(ctx, l.Run, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	batch := &runregistry.Batch{Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}
	perRun := testing.AllocsPerRun(5, func() {
		for range framesPerRun {
			done, err := s.Append(ctx, l, batch)
			if err != nil {
				t.Fatal(err)
			}
			batch.After = done.Last
		}
	})
	if perFrame := perRun / framesPerRun; perFrame > 0.02 {
		t.Errorf("got %.3f allocations per frame, want those of chunks only", perFrame)
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	s := openWith(t, embeddedstore.Options{})
	ctx := t.Context()
	l := running(t, s, runregistry.LogLimits{})
	for i := range runregistry.Seq(framesPerRun) {
		if _, err := s.Append(ctx, l, &runregistry.Batch{After: i, Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}); err != nil {
			t.Fatal(err)
		}
	}
	q := runregistry.PageQuery{Run: l.Run, MaxBytes: 10_000, Into: make([]runregistry.Frame, 0, 100)}
	allocs := testing.AllocsPerRun(100, func() {
		q.After = (q.After + 97) % framesPerRun
		p, err := s.Read(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		q.Into = p.Frames
	})
	if allocs != 0 {
		t.Errorf("got %.1f allocations per page, want none", allocs)
	}
}

// A reader at rest keeps the memory of its last page only as long as it does
// not read again.
func TestReadForgetsTheFramesOfThePageBefore(t *testing.T) {
	s := openWith(t, embeddedstore.Options{})
	ctx := t.Context()
	l := running(t, s, runregistry.LogLimits{})
	if _, err := s.Append(ctx, l, &runregistry.Batch{Frames: [][]byte{{1}, {}, {3}}}); err != nil {
		t.Fatal(err)
	}
	p, err := s.Read(ctx, runregistry.PageQuery{Run: l.Run})
	if err != nil {
		t.Fatal(err)
	}
	held := p.Frames
	for _, tt := range []struct {
		after runregistry.Seq
		kept  int
	}{{2, 1}, {3, 0}} {
		// However a reader hands its frames back, empty or not.
		if _, err := s.Read(ctx, runregistry.PageQuery{Run: l.Run, After: tt.after, Into: held[:0]}); err != nil {
			t.Fatal(err)
		}
		for i, f := range held {
			if kept := f.Data != nil; kept != (i < tt.kept) {
				t.Errorf("after %d, frame %d: got kept %v", tt.after, i, kept)
			}
		}
	}
}
