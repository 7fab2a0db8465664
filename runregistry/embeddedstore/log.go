package embeddedstore

import (
	"slices"
	"sort"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Sizes of a chunk's data. Chunks double, so that a short answer costs little
// and a long one few allocations.
const (
	minChunk = 1 << 10
	maxChunk = 64 << 10
)

// frameLog holds the stored frames of one run. Data once written into a chunk
// is never written again, so that readers use it without a copy, even after it
// was trimmed here. The owner's lock guards the rest.
type frameLog struct {
	chunks []*chunk // oldest first
	skip   int      // frames of the oldest chunk that were trimmed
	frames int
	bytes  int64 // of the frames that are not trimmed
	held   int64 // memory of all chunks
}

// chunk is a run of neighbouring frames in one piece of memory.
type chunk struct {
	first runregistry.Seq
	base  time.Time
	data  []byte
	marks []mark
}

// mark says where a frame ends and when it came, in milliseconds after the
// chunk's base.
type mark struct {
	end uint32
	at  uint32
}

const markSize = 8

// append copies a frame to the end; seq is its number.
func (l *frameLog) append(seq runregistry.Seq, frame []byte, now time.Time) {
	c := l.tail()
	if c == nil || cap(c.data)-len(c.data) < len(frame) {
		c = l.grow(c, seq, len(frame), now)
	}
	before := cap(c.marks)
	c.data = append(c.data, frame...)
	c.marks = append(c.marks, mark{
		end: uint32(len(c.data)),
		at:  uint32(max(now.Sub(c.base), 0).Milliseconds()),
	})
	l.held += int64(cap(c.marks)-before) * markSize
	l.frames++
	l.bytes += int64(len(frame))
}

func (l *frameLog) tail() *chunk {
	if len(l.chunks) == 0 {
		return nil
	}
	return l.chunks[len(l.chunks)-1]
}

// grow adds a chunk with room for a frame of size bytes. A frame larger than
// any chunk gets its own, which does not change the size of the next.
func (l *frameLog) grow(last *chunk, seq runregistry.Seq, size int, now time.Time) *chunk {
	room, marks := minChunk, 8
	if last != nil {
		room = min(2*max(cap(last.data), minChunk), maxChunk)
		marks = len(last.marks) * room / max(len(last.data), 1) // as many as the last frames suggest
	}
	for room < size && room < maxChunk {
		room *= 2
	}
	c := &chunk{
		first: seq,
		base:  now,
		data:  make([]byte, 0, max(room, size)),
		marks: make([]mark, 0, min(marks, room/8)+1),
	}
	l.chunks = append(l.chunks, c)
	l.held += c.size()
	return c
}

func (c *chunk) size() int64 { return int64(cap(c.data)) + int64(cap(c.marks))*markSize }

// start returns where frame i of the chunk begins.
func (c *chunk) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return c.marks[i-1].end
}

// frame returns frame i of the chunk. Its capacity ends with it, so that no
// append of a reader can reach its neighbour.
func (c *chunk) frame(i int) runregistry.Frame {
	from, m := c.start(i), c.marks[i]
	return runregistry.Frame{
		Seq:  c.first + runregistry.Seq(i),
		At:   c.base.Add(time.Duration(m.at) * time.Millisecond),
		Data: c.data[from:m.end:m.end],
	}
}

// page appends the frames after a position to dst until they have limit bytes;
// it takes at least one. The position must not be before the oldest frame.
func (l *frameLog) page(dst []runregistry.Frame, after runregistry.Seq, limit int) []runregistry.Frame {
	at := l.chunkOf(after + 1)
	for ; at < len(l.chunks); at++ {
		c := l.chunks[at]
		for i := int(max(after+1, c.first) - c.first); i < len(c.marks); i++ {
			size := int(c.marks[i].end - c.start(i))
			if len(dst) > 0 && size > limit || len(dst) == runregistry.PageFrames {
				return dst
			}
			dst = append(dst, c.frame(i))
			limit -= size
		}
	}
	return dst
}

// chunkOf returns the index of the chunk that holds seq, or would. Readers are
// nearly always at the tail.
func (l *frameLog) chunkOf(seq runregistry.Seq) int {
	last := len(l.chunks) - 1
	if last < 0 || seq >= l.chunks[last].first {
		return max(last, 0)
	}
	return max(sort.Search(last, func(i int) bool { return l.chunks[i].first > seq })-1, 0)
}

// trim forgets the oldest frames above the limits, but never the newest one.
// Memory is freed by whole chunks.
func (l *frameLog) trim(limits runregistry.LogLimits) {
	for l.frames > 1 && (limits.Bytes > 0 && l.bytes > limits.Bytes || limits.Frames > 0 && l.frames > limits.Frames) {
		c := l.chunks[0]
		l.bytes -= int64(c.marks[l.skip].end - c.start(l.skip))
		l.frames--
		l.skip++
		if l.skip == len(c.marks) {
			l.held -= c.size()
			l.chunks[0] = nil // the array behind the slice must not keep it
			l.chunks, l.skip = l.chunks[1:], 0
		}
	}
}

// first returns the number of the oldest stored frame, 0 without any.
func (l *frameLog) first() runregistry.Seq {
	if l.frames == 0 {
		return 0
	}
	return l.chunks[0].first + runregistry.Seq(l.skip)
}

// seal gives the unused room of the last chunk back: nothing will be appended.
// Readers of the old memory keep it as long as they need it.
func (l *frameLog) seal() {
	c := l.tail()
	if c == nil || cap(c.data)-len(c.data) < minChunk/2 {
		return
	}
	l.held -= c.size()
	c.data = slices.Clip(slices.Clone(c.data))
	c.marks = slices.Clip(slices.Clone(c.marks))
	l.held += c.size()
}

// drop forgets everything.
func (l *frameLog) drop() { *l = frameLog{} }
