package frame_test

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// cut is one frame as a sink saw it, or a run of dropped bytes.
type cut struct {
	dropped bool
	raw     string

	clean, event, data, id string
	hasID, hasData         bool
	lastID                 string // what the cutter said at that moment
}

// outcome is everything that cutting a body led to.
type outcome struct {
	cuts   []cut
	lastID string
	err    error
}

func (o outcome) frames() []cut {
	return slices.DeleteFunc(slices.Clone(o.cuts), func(c cut) bool { return c.dropped })
}

// joined puts the body together again.
func (o outcome) joined() string {
	var b []byte
	for _, c := range o.cuts {
		b = append(b, c.raw...)
	}
	return string(b)
}

// recorder is a sink that copies what it gets. Dropped bytes that follow each
// other are one piece, since their number of calls is nobody's business.
type recorder struct {
	cutter frame.Cutter
	cuts   []cut
}

func (r *recorder) sink() frame.Sink {
	return frame.Sink{Frame: r.frame, Dropped: r.dropped}
}

func (r *recorder) frame(f *frame.Frame) error {
	r.cuts = append(r.cuts, cut{
		raw: string(f.Raw), clean: string(f.Clean),
		event: string(f.Event), data: string(f.Data), id: string(f.ID),
		hasID: f.HasID, hasData: f.HasData, lastID: string(r.cutter.LastID()),
	})
	return nil
}

func (r *recorder) dropped(p []byte) {
	if n := len(r.cuts); n > 0 && r.cuts[n-1].dropped {
		r.cuts[n-1].raw += string(p)
		return
	}
	r.cuts = append(r.cuts, cut{dropped: true, raw: string(p)})
}

// cutBody cuts a body that arrives in the given chunks and ends cleanly.
func cutBody(kind frame.Kind, limit int, chunks iter.Seq[[]byte]) outcome {
	return cutUntil(kind, limit, chunks, true)
}

// cutUntil cuts a body that ends cleanly or not. Each chunk is passed in a
// buffer that is overwritten afterwards, as a read loop does, so that a cutter
// which keeps a chunk is found out.
func cutUntil(kind frame.Kind, limit int, chunks iter.Seq[[]byte], clean bool) outcome {
	r := &recorder{cutter: frame.New(kind, limit)}
	var buffer []byte
	for chunk := range chunks {
		buffer = append(buffer[:0], chunk...)
		if err := r.cutter.Cut(buffer, r.sink()); err != nil {
			return outcome{cuts: r.cuts, lastID: string(r.cutter.LastID()), err: err}
		}
		clear(buffer)
	}
	err := r.cutter.End(r.sink(), clean)
	return outcome{cuts: r.cuts, lastID: string(r.cutter.LastID()), err: err}
}

// whole is a body in one chunk.
func whole(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yield(body) }
}

// pieces is a body in chunks of n bytes.
func pieces(body []byte, n int) iter.Seq[[]byte] { return slices.Chunk(body, n) }

// cutAt is a body in two chunks.
func cutAt(body []byte, i int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		_ = yield(body[:i]) && yield(body[i:])
	}
}

// shuffled is a body in chunks of random sizes, some empty, many small.
func shuffled(body []byte, seed uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		for rest := body; len(rest) > 0; {
			n := min(random.IntN(1<<random.IntN(10)), len(rest))
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// chunkings are ways in which a body may arrive: in small pieces of a size, at
// random, and in two at a position; of a long body not for every size and
// position.
func chunkings(body []byte) []iter.Seq[[]byte] {
	var ways []iter.Seq[[]byte]
	for n := 1; n <= 7; n++ {
		if n == 1 || len(body) <= 8<<10 {
			ways = append(ways, pieces(body, n))
		}
	}
	for seed := range uint64(4) {
		ways = append(ways, shuffled(body, seed))
	}
	if len(body) <= 160 {
		for i := range body {
			ways = append(ways, cutAt(body, i))
		}
	}
	return ways
}

// sameForEveryChunking cuts a body whole and in every other way, and returns
// the outcome, which must be the same (promise 1) and complete (promise 2).
func sameForEveryChunking(t *testing.T, kind frame.Kind, body []byte) outcome {
	t.Helper()
	want := cutBody(kind, 0, whole(body))
	if want.err != nil || want.joined() != string(body) {
		t.Fatalf("got pieces %q, error %v; want the body %q", want.joined(), want.err, body)
	}
	for _, chunks := range chunkings(body) {
		sameOutcome(t, want, cutBody(kind, 0, chunks), chunks)
	}
	return want
}

func sameOutcome(t *testing.T, want, got outcome, chunks iter.Seq[[]byte]) {
	t.Helper()
	if !slices.Equal(got.cuts, want.cuts) || got.lastID != want.lastID || !equalErrors(got.err, want.err) {
		t.Fatalf("for chunks %q\ngot  %+v\nwant %+v as for the whole body", slices.Collect(chunks), got, want)
	}
}

func equalErrors(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) }
