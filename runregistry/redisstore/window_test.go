package redisstore

import (
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// numbered returns frames from one number to another, each of the given size.
func numbered(from, to runregistry.Seq, size int) []runregistry.Frame {
	var frames []runregistry.Frame
	for n := from; n <= to; n++ {
		frames = append(frames, runregistry.Frame{Seq: n, Data: []byte(strings.Repeat("x", size))})
	}
	return frames
}

// wantWindow checks the ends of a window and that it has no hole.
func wantWindow(t *testing.T, w *window, first, last runregistry.Seq) {
	t.Helper()
	if len(w.frames) != int(last-first+1) {
		t.Fatalf("got %d frames, want %d to %d", len(w.frames), first, last)
	}
	size := 0
	for i, f := range w.frames {
		if f.Seq != first+runregistry.Seq(i) {
			t.Fatalf("got frame %d in place %d of %d to %d", f.Seq, i, first, last)
		}
		size += len(f.Data)
	}
	if w.bytes != size {
		t.Errorf("got %d bytes counted, want %d", w.bytes, size)
	}
}

func TestWindowHasNoHole(t *testing.T) {
	var w window
	w.add(nil)
	w.add(numbered(3, 5, 1))
	wantWindow(t, &w, 3, 5)
	w.add(numbered(6, 7, 1))
	wantWindow(t, &w, 3, 7)
	w.add(numbered(4, 9, 1)) // overlaps
	wantWindow(t, &w, 3, 9)
	w.add(numbered(1, 2, 1)) // older
	wantWindow(t, &w, 3, 9)
	w.add(numbered(11, 12, 1)) // after a hole
	wantWindow(t, &w, 11, 12)
	w.cut(11)
	wantWindow(t, &w, 11, 11)
	w.cut(5)
	if len(w.frames) != 0 || w.bytes != 0 {
		t.Errorf("got %d frames, want none", len(w.frames))
	}
}

func TestWindowIsBounded(t *testing.T) {
	var w window
	w.add(numbered(1, 2000, 1))
	wantWindow(t, &w, 2001-windowFrames, 2000)
	w.add(numbered(2001, 2010, windowBytes/4))
	wantWindow(t, &w, 2007, 2010)
	w.add(numbered(2011, 2011, 2*windowBytes))
	wantWindow(t, &w, 2011, 2011)
}

func TestWindowPagesLikeTheLog(t *testing.T) {
	var w window
	w.add(numbered(3, 8, 10))
	for _, tt := range []struct {
		after  runregistry.Seq
		limit  int
		frames int
	}{{2, 0, 6}, {2, 1, 1}, {2, 20, 2}, {2, 29, 2}, {5, 30, 3}, {7, 5, 1}} {
		page := w.page(nil, tt.after, tt.limit)
		if len(page) != tt.frames || page[0].Seq != tt.after+1 {
			t.Errorf("after %d with %d bytes: got %d frames, want %d", tt.after, tt.limit, len(page), tt.frames)
		}
	}
	for after, want := range map[runregistry.Seq]bool{1: false, 2: true, 5: true, 8: true} {
		if got := w.covers(after, 8); got != want {
			t.Errorf("after %d: got covered %v, want %v", after, got, want)
		}
	}
	if w.covers(5, 9) {
		t.Error("got frames covered that are not there")
	}
}
