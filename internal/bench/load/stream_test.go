package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

const okHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// response renders blocks as a chunked response.
func response(blocks ...string) string {
	var b strings.Builder
	b.WriteString(okHead)
	for _, block := range blocks {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(block), block)
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

func numbered(seq uint64) string {
	return fmt.Sprintf("id: run_x.%d\n%s", seq, bare(seq))
}

func bare(seq uint64) string { return string(source.AppendFrame(nil, seq, 1_780_000_000_000_000_000)) }

// read feeds a response in pieces of size bytes.
func read(s *stream, response string, size int) (frames int) {
	now := time.Unix(0, 1_780_000_000_001_000_000)
	for response != "" && !s.ended {
		n := min(size, len(response))
		s.feed([]byte(response[:n]), now, func(time.Duration) { frames++ })
		response = response[n:]
	}
	return frames
}

func TestWholeStreamIsCountedWhateverTheReads(t *testing.T) {
	whole := response(numbered(1), ": keepalive\n"+numbered(2)+numbered(3), source.EndMarker)
	for size := 1; size <= len(whole); size++ {
		s := &stream{numbered: true}
		if got := read(s, whole, size); got != 3 || !s.whole() {
			t.Fatalf("in reads of %d: got %d frames, whole %t, fault %q", size, got, s.whole(), s.fault)
		}
	}
}

func TestLatencyIsTheAgeOfTheFrame(t *testing.T) {
	s := &stream{}
	var got []time.Duration
	s.feed([]byte(response(bare(1))), time.Unix(0, 1_780_000_000_001_000_000), func(d time.Duration) { got = append(got, d) })
	if len(got) != 1 || got[0] != time.Millisecond {
		t.Errorf("got latencies %v, want 1ms", got)
	}
}

func TestFaultsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		numbered bool
		response string
		want     string
	}{
		"a missing frame":           {false, response(bare(1), bare(3)), "got frame 3 after 1"},
		"a doubled frame":           {false, response(bare(1), bare(1)), "got frame 1 after 1"},
		"a late start":              {false, response(bare(2)), "got frame 2 after 0"},
		"no id of the gateway":      {true, response(bare(1)), "want the gateway's id"},
		"a wrong id of the gateway": {true, response("id: run_x.2\n" + bare(1)), "want the gateway's id"},
		"an unknown block":          {false, response("event: error\ndata: x\n\n"), "got unknown frame"},
		"a frame after the end":     {false, response(bare(1), source.EndMarker, bare(2)), "after the end marker"},
		"another status":            {false, "HTTP/1.1 503 Service Unavailable\r\n\r\nbusy", "503 Service Unavailable"},
		"a malformed chunk":         {false, okHead + "zz\r\n", "malformed chunked coding"},
	} {
		s := &stream{numbered: c.numbered}
		read(s, c.response, 1<<20)
		if s.whole() || !strings.Contains(s.fault, c.want) {
			t.Errorf("%s: got whole %t, fault %q, want %q", name, s.whole(), s.fault, c.want)
		}
	}
}

func TestConnectionThatEndsEarlyIsAFault(t *testing.T) {
	s := &stream{}
	read(s, strings.TrimSuffix(response(bare(1)), "0\r\n\r\n"), 1<<20)
	s.closed()
	if !strings.Contains(s.fault, "ended after frame 1") {
		t.Errorf("got fault %q, want one that names frame 1", s.fault)
	}
}

func TestEndWithoutMarkerIsNotWhole(t *testing.T) {
	s := &stream{}
	read(s, response(bare(1)), 1<<20)
	if s.whole() {
		t.Error("got a whole stream without its end marker")
	}
}
