package frame_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// step is one call of a cutter: what arrives and what must have come out
// before the call returns.
type step struct {
	in      string
	frames  string // raw, joined
	pending int
}

// TestBlockEndsAsSoonAsItCan: the byte after a CR may be a minute away, so a
// blank line that is a CR ends its block at once, unless the line before ended
// with CRLF and an LF is sure to follow.
func TestBlockEndsAsSoonAsItCan(t *testing.T) {
	tests := []struct {
		name    string
		steps   []step
		dropped string
		atEnd   string // frames that come out at the end of the body
	}{
		{"LF", []step{{"data:a\n", "", 7}, {"\n", "data:a\n\n", 0}}, "", ""},
		{"CR", []step{{"data:a\r", "", 7}, {"\r", "data:a\r\r", 0}, {"data:b", "", 6}}, "data:b", ""},
		{"LF after CR CR is dropped", []step{{"data:a\r\r", "data:a\r\r", 0}, {"\n", "", 0}}, "\n", ""},
		{"the same in one piece", []step{{"data:a\r\r\n", "data:a\r\r", 0}}, "\n", ""},
		{"LF CR", []step{{"data:a\n\r", "data:a\n\r", 0}, {"\n", "", 0}}, "\n", ""},
		{"LF CRLF in one piece", []step{{"data:a\n\r\n", "data:a\n\r", 0}}, "\n", ""},
		{"CRLF", []step{{"data:a\r", "", 7}, {"\n\r", "", 9}, {"\n", "data:a\r\n\r\n", 0}}, "", ""},
		{"CRLF in one piece", []step{{"data:a\r\n\r\n", "data:a\r\n\r\n", 0}}, "", ""},
		{"CRLF CR and no LF", []step{{"data:a\r\n\r", "", 9}, {"d", "data:a\r\n\r", 1}}, "d", ""},
		{"CRLF CR in one piece", []step{{"data:a\r\n\rd", "data:a\r\n\r", 1}}, "d", ""},
		{"CRLF CR CR", []step{{"data:a\r\n\r", "", 9}, {"\r", "data:a\r\n\r", 0}}, "\r", ""},
		{"CRLF CR and the end", []step{{"data:a\r\n\r", "", 9}}, "", "data:a\r\n\r"},
		{"a mark in pieces", []step{{"\xEF", "", 1}, {"\xBB", "", 2}, {"\xBF", "", 0}}, "\uFEFF", ""},
		{"half a mark", []step{{"\xEF\xBB", "", 2}, {"\n\n", "", 0}}, "\xEF\xBB\n\n", ""},
		{"half a mark and the end", []step{{"\xEF\xBB", "", 2}}, "\xEF\xBB", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{cutter: frame.New(frame.SSE, 0)}
			var dropped, want string
			sink := frame.Sink{Frame: r.frame, Dropped: func(p []byte) { dropped += string(p) }}
			for _, s := range tt.steps {
				if err := r.cutter.Cut([]byte(s.in), sink); err != nil {
					t.Fatal(err)
				}
				want += s.frames
				checkStep(t, r, want, s)
			}
			if err := r.cutter.End(sink, false); err != nil {
				t.Fatal(err)
			}
			checkStep(t, r, want+tt.atEnd, step{in: "the end"})
			if dropped != tt.dropped {
				t.Errorf("got dropped %q, want %q", dropped, tt.dropped)
			}
		})
	}
}

func checkStep(t *testing.T, r *recorder, want string, s step) {
	t.Helper()
	if got := (outcome{cuts: r.cuts}).joined(); got != want {
		t.Errorf("after %q got frames %q, want %q", s.in, got, want)
	}
	if got := r.cutter.Pending(); got != s.pending {
		t.Errorf("after %q got %d pending bytes, want %d", s.in, got, s.pending)
	}
}

// TestCommentsBetweenBlocksAreNotHeldBack: an upstream may send keepalives
// without blank lines for hours.
func TestCommentsBetweenBlocksAreNotHeldBack(t *testing.T) {
	r := &recorder{cutter: frame.New(frame.SSE, 16)}
	for _, chunk := range []string{": keepalive\n", ": a comment longer", " than any frame may be", "\r\n", ":", "\n\n"} {
		if err := r.cutter.Cut([]byte(chunk), r.sink()); err != nil {
			t.Fatal(err)
		}
		if got := r.cutter.Pending(); got != 0 {
			t.Errorf("after %q got %d pending bytes, want 0", chunk, got)
		}
	}
	if err := r.cutter.Cut([]byte(": last\ndata: x\n\n"), r.sink()); err != nil {
		t.Fatal(err)
	}
	if frames := (outcome{cuts: r.cuts}).frames(); len(frames) != 1 || frames[0].raw != "data: x\n\n" {
		t.Errorf("got frames %+v, want one without the comments before it", frames)
	}
}
