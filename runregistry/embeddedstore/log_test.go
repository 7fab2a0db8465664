package embeddedstore

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// heldBy adds up what the chunks of a log really hold.
func heldBy(l *frameLog) (held int64) {
	for _, c := range l.chunks {
		held += int64(cap(c.data)) + int64(cap(c.marks))*markSize
	}
	return held
}

func fillLog(l *frameLog, from runregistry.Seq, n, size int) runregistry.Seq {
	for range n {
		from++
		l.append(from, bytes.Repeat([]byte{byte(from)}, size), time.Now())
	}
	return from
}

func TestChunksDoubleAndStayBounded(t *testing.T) {
	var l frameLog
	fillLog(&l, 0, 3000, 120)
	want := minChunk
	for i, c := range l.chunks {
		if cap(c.data) != want {
			t.Errorf("chunk %d: got %d bytes, want %d", i, cap(c.data), want)
		}
		want = min(2*want, maxChunk)
	}
	if n := len(l.chunks); n < 10 {
		t.Errorf("got %d chunks, want the largest size more than once", n)
	}
}

func TestALargeFrameGetsAChunkOfItsOwn(t *testing.T) {
	var l frameLog
	last := fillLog(&l, 0, 1, 10)
	last = fillLog(&l, last, 1, 3*maxChunk)
	last = fillLog(&l, last, 1, 10)
	fillLog(&l, last, 1, maxChunk-10)
	for i, want := range []int{minChunk, 3 * maxChunk, maxChunk} {
		if got := cap(l.chunks[i].data); got != want {
			t.Errorf("chunk %d: got %d bytes, want %d", i, got, want)
		}
	}
	if len(l.chunks) != 3 {
		t.Errorf("got %d chunks, want 3: what fits is put together", len(l.chunks))
	}
}

func TestAChunkHasRoomForItsFirstFrameAndMore(t *testing.T) {
	for size, want := range map[int]int{0: minChunk, minChunk: minChunk, minChunk + 1: 2 * minChunk, 5000: 8192, maxChunk: maxChunk} {
		var l frameLog
		fillLog(&l, 0, 1, size)
		if got := cap(l.chunks[0].data); got != want {
			t.Errorf("first frame of %d bytes: got a chunk of %d, want %d", size, got, want)
		}
	}
}

func TestMarksCostAsMuchAsTheFramesSuggest(t *testing.T) {
	for _, size := range []int{1, 20, 120, 2000} {
		var l frameLog
		fillLog(&l, 0, 5000, size)
		room := 0
		for _, c := range l.chunks[:len(l.chunks)-1] {
			room += cap(c.marks)
		}
		if room > 2*l.frames+100 {
			t.Errorf("frames of %d bytes: got room for %d marks, want about %d", size, room, l.frames)
		}
	}
}

// Whatever happens to a log, its own account of itself is right, and its pages
// are what was appended.
func TestLogAgreesWithASliceOfFrames(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limits := runregistry.LogLimits{Bytes: rng.Int64N(200_000), Frames: rng.IntN(1500)}
		var l frameLog
		var model [][]byte
		first := 0 // index of the oldest frame in model
		for range 2000 {
			frame := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(1<<rng.IntN(12)))
			model = append(model, frame)
			l.append(runregistry.Seq(len(model)), frame, time.Now())
			l.trim(limits)
			first = trimModel(model, first, limits)
		}
		if rng.IntN(2) == 0 {
			l.seal()
		}
		checkLog(t, &l, model, first)
	}
}

func trimModel(model [][]byte, first int, limits runregistry.LogLimits) int {
	var size int64
	for _, f := range model[first:] {
		size += int64(len(f))
	}
	for ; first < len(model)-1; first++ {
		frames := len(model) - first
		if (limits.Bytes == 0 || size <= limits.Bytes) && (limits.Frames == 0 || frames <= limits.Frames) {
			break
		}
		size -= int64(len(model[first]))
	}
	return first
}

func checkLog(t *testing.T, l *frameLog, model [][]byte, first int) {
	t.Helper()
	if got, want := l.first(), runregistry.Seq(first+1); got != want {
		t.Fatalf("got first number %d, want %d", got, want)
	}
	if got, want := l.held, heldBy(l); got != want {
		t.Errorf("got %d bytes held by account, want %d", got, want)
	}
	if got, want := l.frames, len(model)-first; got != want {
		t.Errorf("got %d frames, want %d", got, want)
	}
	after := runregistry.Seq(first)
	for int(after) < len(model) {
		for _, f := range l.page(nil, after, 5000) {
			after++
			if f.Seq != after || !bytes.Equal(f.Data, model[after-1]) {
				t.Fatalf("frame %d: got number %d and %d bytes, want %d bytes", after, f.Seq, len(f.Data), len(model[after-1]))
			}
		}
	}
}

func TestTrimmingFreesWholeChunks(t *testing.T) {
	var l frameLog
	last := fillLog(&l, 0, 20_000, 100)
	full := l.held
	l.trim(runregistry.LogLimits{Frames: 100})
	if l.held >= full/10 {
		t.Errorf("got %d of %d bytes held after trimming to 100 of %d frames", l.held, full, last)
	}
	if got := l.first(); got != last-99 {
		t.Errorf("got first number %d, want %d", got, last-99)
	}
}

func TestSealingGivesUnusedRoomBack(t *testing.T) {
	var l frameLog
	fillLog(&l, 0, 1, maxChunk+1)
	fillLog(&l, 1, 1, 10)
	before := l.page(nil, 1, 100)
	l.seal()
	if got := cap(l.chunks[1].data); got > 64 {
		t.Errorf("got %d bytes for a frame of 10", got)
	}
	if l.held != heldBy(&l) {
		t.Errorf("got %d bytes held by account, want %d", l.held, heldBy(&l))
	}
	after := l.page(nil, 1, 100)
	if !bytes.Equal(before[0].Data, after[0].Data) || !before[0].At.Equal(after[0].At) {
		t.Errorf("got %v, want %v", after[0], before[0])
	}
}

func TestReadersShareFramesAndCannotReachNeighbours(t *testing.T) {
	var l frameLog
	fillLog(&l, 0, 2, 10)
	a, b := l.page(nil, 0, 100), l.page(nil, 0, 100)
	if &a[0].Data[0] != &b[0].Data[0] {
		t.Error("got two copies of a frame, want one")
	}
	_ = append(a[0].Data, 'x')
	if b[1].Data[0] != 2 {
		t.Error("an append to one frame changed the next")
	}
}
