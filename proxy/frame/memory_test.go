package frame

import (
	"bytes"
	"strings"
	"testing"
)

// Inside tests: what a cutter keeps is nobody else's business, but there is
// one for each live run.

var discard = Sink{Frame: func(*Frame) error { return nil }, Dropped: func([]byte) {}}

func TestHugeFrameIsNotKept(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	body := []byte("id: " + huge + "\ndata: " + huge + "\ndata: " + huge + "\n\n")
	c := New(SSE, 0).(*sseCutter) //nolint:forcetypeassert // New says so
	for i := 0; i < len(body); i += 32 << 10 {
		if err := c.Cut(body[i:min(len(body), i+32<<10)], discard); err != nil {
			t.Fatal(err)
		}
	}
	if got := cap(c.held.bytes) + cap(c.frame.joined) + cap(c.frame.cleaned); got > 3*retained {
		t.Errorf("got %d bytes kept after a huge frame, want at most %d", got, 3*retained)
	}
	if string(c.LastID()) != huge {
		t.Errorf("got last id of %d bytes, want the huge one", len(c.LastID()))
	}
	if err := c.Cut([]byte("id: small\n\ndata"), discard); err != nil {
		t.Fatal(err)
	}
	if string(c.LastID()) != "small" || cap(c.lastID) > retained || c.Pending() != len("data") {
		t.Errorf("got last id %.20q and %d pending bytes, want small and 4", c.LastID(), c.Pending())
	}
}

func TestWhatIsTooLongIsNotKept(t *testing.T) {
	for _, kind := range []Kind{SSE, Lines} {
		const limit = 64 << 10
		c := New(kind, limit)
		chunk := bytes.Repeat([]byte("x"), 1<<10)
		for range limit / len(chunk) {
			if err := c.Cut(chunk, discard); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Pending(); got != limit {
			t.Errorf("got %d pending bytes, want %d", got, limit)
		}
		if err := c.Cut(chunk[:1], discard); err == nil || c.Pending() != 0 {
			t.Errorf("got error %v and %d pending bytes, want an error and none", err, c.Pending())
		}
	}
}

func TestHeldBytesGrowByDoubling(t *testing.T) {
	h := held{limit: 1 << 20}
	grown, last := 0, 0
	for range 1 << 18 {
		if err := h.add([]byte("abcd")); err != nil {
			t.Fatal(err)
		}
		if cap(h.bytes) != last {
			grown, last = grown+1, cap(h.bytes)
		}
	}
	if grown > 24 || cap(h.bytes) > 2<<20 {
		t.Errorf("got %d reallocations up to %d bytes, want at most 24 up to 2 MiB", grown, cap(h.bytes))
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var (
		block = []byte("data: a\n\nevent: b\ndata: c\n\n")
		crlf  = []byte("data: a\r\n\r\n: c\r\n\r\n")
		mixed = []byte("id: 1\n: c\ndata: a\ndata: b\n\nevent: e\nid: 1\n: c\ndata: a\ndata: b\n\n")
		f     Frame
		out   []byte
	)
	tests := []struct {
		name string
		kind Kind
		step func(c Cutter)
	}{
		{"whole blocks", SSE, func(c Cutter) { _ = c.Cut(block, discard) }},
		{"CRLF", SSE, func(c Cutter) { _ = c.Cut(crlf, discard) }},
		{"broken blocks", SSE, func(c Cutter) { _, _ = c.Cut(mixed[:40], discard), c.Cut(mixed[40:], discard) }},
		{"lines", Lines, func(c Cutter) { _, _ = c.Cut(block[:4], discard), c.Cut(block[4:], discard) }},
		{"opaque", Opaque, func(c Cutter) { _ = c.Cut(block, discard) }},
		{"parse", SSE, func(Cutter) { Parse(SSE, mixed, &f) }},
		{"render", SSE, func(Cutter) { out = AppendID(out[:0], block, block[:7]) }},
		{"event", SSE, func(Cutter) { out = AppendEvent(out[:0], "run.end", block) }},
	}
	for _, tt := range tests {
		c := New(tt.kind, 1<<20)
		if got := testing.AllocsPerRun(100, func() { tt.step(c) }); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", tt.name, got)
		}
	}
}
