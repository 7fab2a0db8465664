package redisstore

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

// Bounds of the frames that are kept in memory for the readers of one run.
const (
	windowBytes  = 256 << 10
	windowFrames = 1024
)

// window holds the newest frames of a run, without a hole.
type window struct {
	frames []runregistry.Frame
	bytes  int
}

// add puts frames at the end. Frames that do not continue the window begin a
// new one; those that it has are skipped.
func (w *window) add(frames []runregistry.Frame) {
	if len(frames) == 0 {
		return
	}
	if n := len(w.frames); n > 0 {
		next := w.frames[n-1].Seq + 1
		switch {
		case frames[len(frames)-1].Seq < next:
			return
		case frames[0].Seq > next:
			w.drop()
		default:
			frames = frames[next-frames[0].Seq:]
		}
	}
	w.frames = append(w.frames, frames...)
	for _, f := range frames {
		w.bytes += len(f.Data)
	}
	w.trim()
}

// trim forgets the oldest frames above the bounds, but never the newest one.
func (w *window) trim() {
	n := 0
	for len(w.frames)-n > 1 && (w.bytes > windowBytes || len(w.frames)-n > windowFrames) {
		w.bytes -= len(w.frames[n].Data)
		n++
	}
	if n == 0 {
		return
	}
	clear(w.frames[:n]) // the array behind the slice must not keep them
	w.frames = w.frames[n:]
}

// cut forgets frames above a number, which the log has lost.
func (w *window) cut(last runregistry.Seq) {
	for n := len(w.frames); n > 0 && w.frames[n-1].Seq > last; n-- {
		w.bytes -= len(w.frames[n-1].Data)
		w.frames[n-1] = runregistry.Frame{}
		w.frames = w.frames[:n-1]
	}
}

func (w *window) drop() { *w = window{} }

// covers reports whether all frames after a position up to the last are here.
func (w *window) covers(after, last runregistry.Seq) bool {
	n := len(w.frames)
	return n > 0 && w.frames[0].Seq <= after+1 && w.frames[n-1].Seq >= last
}

// page appends the frames after a position to dst until they have limit bytes;
// it takes at least one.
func (w *window) page(dst []runregistry.Frame, after runregistry.Seq, limit int) []runregistry.Frame {
	if limit <= 0 {
		limit = runregistry.PageBytes
	}
	for _, f := range w.frames[after+1-w.frames[0].Seq:] {
		if limit -= len(f.Data); len(dst) > 0 && limit < 0 || len(dst) == runregistry.PageFrames {
			break
		}
		dst = append(dst, f)
	}
	return dst
}
