package load

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

// stream is one response as it arrives.
type stream struct {
	fd       int
	numbered bool
	asked    time.Time
	first    time.Duration // from the request to its first frame

	head    []byte // the response head until it is whole
	body    bool   // the head is whole
	coding  chunked
	pending []byte // what is left of the body after the last whole frame

	last   uint64 // number of the last frame
	marked bool   // the end marker came
	ended  bool   // nothing more will come
	fault  string // what was wrong first
}

// maxHead bounds a response head, and maxFrame what may come without a blank
// line.
const (
	maxHead  = 64 << 10
	maxFrame = 1 << 20
)

// arrival receives the time of each frame on its way.
type arrival func(latency time.Duration)

// feed takes what one read returned.
func (s *stream) feed(p []byte, now time.Time, each arrival) {
	if !s.body {
		p = s.feedHead(p)
	}
	if s.body && s.fault == "" {
		var err error
		s.pending, err = s.coding.decode(s.pending, p)
		if err != nil {
			s.fail("%v", err)
			return
		}
		s.cut(now, each)
		s.ended = s.ended || s.coding.state == chunksDone
	}
}

// feedHead collects the head and returns what follows it.
func (s *stream) feedHead(p []byte) []byte {
	s.head = append(s.head, p...)
	i := bytes.Index(s.head, []byte("\r\n\r\n"))
	if i < 0 {
		if len(s.head) > maxHead {
			s.fail("the response head has no end")
		}
		return nil
	}
	head, rest := s.head[:i], s.head[i+4:]
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || !bytes.Contains(head, []byte("Transfer-Encoding: chunked")) {
		s.fail("got response %q, want 200 in chunks", s.head[:min(len(s.head), 600)])
	}
	s.body, s.head = true, nil
	return rest
}

// cut looks at every whole frame that has arrived.
func (s *stream) cut(now time.Time, each arrival) {
	rest := s.pending
	for {
		i := bytes.Index(rest, []byte("\n\n"))
		if i < 0 {
			break
		}
		s.frame(rest[:i+2], now, each)
		rest = rest[i+2:]
	}
	if len(rest) > maxFrame {
		s.fail("got %d bytes without a blank line", len(rest))
	}
	s.pending = s.pending[:copy(s.pending, rest)]
}

func (s *stream) frame(block []byte, now time.Time, each arrival) {
	seq, at, ok := source.ParseFrame(block)
	switch {
	case s.marked:
		s.fail("got %q after the end marker", block)
	case ok && seq == s.last+1:
		if s.last = seq; seq == 1 {
			s.first = now.Sub(s.asked)
		}
		if s.numbered && !hasNumber(block, seq) {
			s.fail("got %q, want the gateway's id with number %d", block, seq)
		}
		each(time.Duration(now.UnixNano() - at))
	case ok:
		s.fail("got frame %d after %d", seq, s.last)
	case bytes.HasSuffix(block, []byte(source.EndMarker)):
		s.marked = true
	default:
		s.fail("got unknown frame %q", block)
	}
}

// hasNumber reports whether the block has an id field that ends in ".<seq>".
func hasNumber(block []byte, seq uint64) bool {
	_, after, found := bytes.Cut(block, []byte("id: run_"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	i := bytes.LastIndexByte(line, '.')
	var digits [20]byte
	return found && i >= 0 && bytes.Equal(line[i+1:], strconv.AppendUint(digits[:0], seq, 10))
}

func (s *stream) fail(format string, args ...any) {
	s.ended = true
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

// closed notes that the peer has closed the connection.
func (s *stream) closed() {
	if !s.ended {
		s.fail("the connection ended after frame %d, marker %t", s.last, s.marked)
	}
}

// whole reports whether everything up to the end came.
func (s *stream) whole() bool { return s.fault == "" && s.marked && s.ended }
