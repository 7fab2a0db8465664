package frame_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestFrameOverTheLimitEndsTheCut(t *testing.T) {
	tests := []struct {
		name, body string
		kind       frame.Kind
		limit      int
		frames     []string // raw
		tooLong    bool
	}{
		{"at the limit", "data:a\n\ndata:b\n\n", frame.SSE, 8, []string{"data:a\n\n", "data:b\n\n"}, false},
		{"one more", "data:a\n\ndata:bc\n\n", frame.SSE, 8, []string{"data:a\n\n"}, true},
		{"LF of a CRLF", "data:a\r\n\r\n", frame.SSE, 9, nil, true},
		{"CR without its LF", "data:a\r\n\rd", frame.SSE, 9, []string{"data:a\r\n\r"}, false},
		{"no end in sight", "data:a\n\ndata:bcde", frame.SSE, 8, []string{"data:a\n\n"}, true},
		{"unfinished at the limit", "data:a\n\ndata:bc", frame.SSE, 8, []string{"data:a\n\n"}, false},
		{"a block that is no frame", "data:a\n\nid:12345\n\ndata:b\n\n", frame.SSE, 8, []string{"data:a\n\n"}, true},
		{"a comment inside", "data:a\n:c\n\n", frame.SSE, 8, nil, true},
		{"a comment outside", ":cccccccccc\ndata:a\n\n", frame.SSE, 8, []string{"data:a\n\n"}, false},
		{"after a mark", "\uFEFFdata:a\n\n", frame.SSE, 8, []string{"data:a\n\n"}, false},
		{"line at the limit", "abc\ndef\n", frame.Lines, 4, []string{"abc\n", "def\n"}, false},
		{"line over the limit", "abc\ndefg\nh\n", frame.Lines, 4, []string{"abc\n"}, true},
		{"last line at the limit", "abc\ndefg", frame.Lines, 4, []string{"abc\n", "defg"}, false},
		{"last line over the limit", "abc\ndefgh", frame.Lines, 4, []string{"abc\n"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			checkLimit(t, tt.kind, tt.limit, body)
			got := cutBody(tt.kind, tt.limit, whole(body))
			if errors.Is(got.err, frame.ErrTooLong) != tt.tooLong {
				t.Errorf("got error %v, want too long %v", got.err, tt.tooLong)
			}
			var raw []string
			for _, f := range got.frames() {
				raw = append(raw, f.raw)
			}
			if !slices.Equal(raw, tt.frames) {
				t.Errorf("got frames %q, want %q", raw, tt.frames)
			}
		})
	}
}

// checkLimit: under a limit the frames are those without one, up to the first
// that is longer, for every chunking, and nothing before it is lost.
func checkLimit(t *testing.T, kind frame.Kind, limit int, body []byte) {
	t.Helper()
	want := cutBody(kind, limit, whole(body))
	for _, chunks := range chunkings(body) {
		sameOutcome(t, want, cutBody(kind, limit, chunks), chunks)
	}
	if !strings.HasPrefix(string(body), want.joined()) || want.err == nil && want.joined() != string(body) {
		t.Fatalf("got pieces %q, want the body %q or its beginning", want.joined(), body)
	}
	unlimited := cutBody(kind, 0, whole(body)).frames()
	frames := want.frames()
	if n := len(frames); n > len(unlimited) || !slices.Equal(frames, unlimited[:n]) {
		t.Fatalf("got frames %+v, want the first ones of %+v", frames, unlimited)
	}
	for i, f := range unlimited {
		if len(f.raw) > limit && (i < len(frames) || !errors.Is(want.err, frame.ErrTooLong)) {
			t.Fatalf("got %d frames and error %v, want an end before frame %q", len(frames), want.err, f.raw)
		}
	}
}

func TestNoLimitIsNoLimit(t *testing.T) {
	for _, limit := range []int{0, -1} {
		got := cutBody(frame.SSE, limit, whole(longWire(1<<20)))
		if len(got.frames()) != 3 || got.err != nil {
			t.Errorf("got %d frames, error %v; want 3 and none", len(got.frames()), got.err)
		}
	}
}

var errSink = errors.New("sink is full")

// TestErrorEndsTheCut: after an error the cutter does nothing but repeat it.
func TestErrorEndsTheCut(t *testing.T) {
	bodies := map[frame.Kind]string{frame.SSE: "data: 1\n\ndata: 2\n\n", frame.Lines: "1\n2\n", frame.Opaque: "12"}
	for kind, body := range bodies {
		calls := 0
		sink := frame.Sink{Frame: func(*frame.Frame) error { calls++; return errSink }}
		cutter := frame.New(kind, 0)
		for range 2 {
			if err := cutter.Cut([]byte(body), sink); !errors.Is(err, errSink) {
				t.Errorf("kind %d: got %v from Cut, want %v", kind, err, errSink)
			}
		}
		if err := cutter.End(sink, true); !errors.Is(err, errSink) {
			t.Errorf("kind %d: got %v from End, want %v", kind, err, errSink)
		}
		if calls != 1 {
			t.Errorf("kind %d: got %d frames, want no second one after an error", kind, calls)
		}
	}
}

func TestErrorOfTheLastFrameIsReturnedByEnd(t *testing.T) {
	for kind, body := range map[frame.Kind]string{frame.SSE: "data: 1\r\n\r", frame.Lines: "1"} {
		sink := frame.Sink{Frame: func(*frame.Frame) error { return errSink }}
		cutter := frame.New(kind, 0)
		if err := cutter.Cut([]byte(body), sink); err != nil {
			t.Fatal(err)
		}
		if err := cutter.End(sink, true); !errors.Is(err, errSink) {
			t.Errorf("kind %d: got %v from End, want %v", kind, err, errSink)
		}
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	for kind := range frame.Opaque + 1 {
		cutter := frame.New(kind, 0)
		sink := frame.Sink{Frame: func(*frame.Frame) error { return errSink }}
		if err := cutter.End(sink, true); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"Cut": cutter.Cut([]byte("data: 1\n\n"), sink), "End": cutter.End(sink, true),
		} {
			if err == nil || errors.Is(err, errSink) {
				t.Errorf("kind %d: got %v from %s after the end, want an error of the cutter", kind, err, name)
			}
		}
	}
}
