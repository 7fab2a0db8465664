package frame_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestBlockBecomesAFrame(t *testing.T) {
	tests := []struct {
		name, block string
		want        cut // raw is the block
	}{
		{"data", "data: a\n\n", cut{clean: "data: a\n\n", data: "a", hasData: true}},
		{"event only", "event: ping\n\n", cut{clean: "event: ping\n\n", event: "ping"}},
		{"empty event only", "event\n\n", cut{clean: "event\n\n"}},
		{
			"id after data", "event: values\ndata: {}\nid: 7\n\n",
			cut{clean: "event: values\ndata: {}\n\n", event: "values", data: "{}", hasData: true, id: "7", hasID: true, lastID: "7"},
		},
		{
			"id first, CRLF", "id: 7\r\nid:8\r\ndata: a\r\n\r\n",
			cut{clean: "data: a\r\n\r\n", data: "a", hasData: true, id: "8", hasID: true, lastID: "8"},
		},
		{"empty id", "data: a\nid\n\n", cut{clean: "data: a\n\n", data: "a", hasData: true, hasID: true}},
		{"id with NUL", "data: a\nid: \x00\n\n", cut{clean: "data: a\n\n", data: "a", hasData: true}},
		{
			"everything that is not sent on", "data: a\n: c\nretry: 5\nretry\nid: x\n:\ndata: b\n\n",
			cut{clean: "data: a\ndata: b\n\n", data: "a\nb", hasData: true, id: "x", hasID: true, lastID: "x"},
		},
		{
			"unknown fields are kept as they are", "message: 1\n id: 2\nid : 3\nID: 4\nretry : 5\ndata:\t6\n\n",
			cut{clean: "message: 1\n id: 2\nid : 3\nID: 4\nretry : 5\ndata:\t6\n\n", data: "\t6", hasData: true},
		},
		{
			"a comment between CR and LF", "data: a\r: c\n\n",
			cut{clean: "data: a\r\n\n", data: "a", hasData: true},
		},
		{
			"a mark that hides a field", "data: a\n\uFEFFid: 6\n\n",
			cut{clean: "data: a\n\n", data: "a", hasData: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.raw = tt.block
			all := sameForEveryChunking(t, frame.SSE, []byte(tt.block))
			if frames := all.frames(); len(frames) != 1 || frames[0] != tt.want {
				t.Errorf("got  %+v\nwant %+v", frames, tt.want)
			}
		})
	}
}

func TestBlocksWithoutDataAndEventAreDropped(t *testing.T) {
	for _, block := range []string{
		"\n", "\r\n", ": c\n\n", "id: 1\n\n", "retry: 1\n\n", "retry: 1\r\nid\r\n\r\n", "unknown: 1\n\n", "dat: 1\n: c\n\n",
	} {
		all := sameForEveryChunking(t, frame.SSE, []byte(block+"data: x\n\n"))
		if len(all.cuts) != 2 || !all.cuts[0].dropped || all.cuts[0].raw != block {
			t.Errorf("got %+v, want %q to be dropped", all.cuts, block)
		}
	}
}

// TestFramesAreNotCopied: a block that arrives whole is handed on where it
// lies, and so are its fields.
func TestFramesAreNotCopied(t *testing.T) {
	in := []byte(": c\n\nevent: e\ndata: abc\n\n")
	sink := frame.Sink{Frame: func(f *frame.Frame) error {
		if &f.Raw[0] != &in[5] || &f.Clean[0] != &in[5] || &f.Event[0] != &in[12] || &f.Data[0] != &in[20] {
			t.Errorf("got a frame that is elsewhere than the input, want parts of the input")
		}
		return nil
	}}
	if err := frame.New(frame.SSE, 0).Cut(in, sink); err != nil {
		t.Fatal(err)
	}
}

// TestParseLeavesTheFrameBeforeAlone: a frame variable is used again and
// again, and what Parse joins must not end up in the frame parsed before.
func TestParseLeavesTheFrameBeforeAlone(t *testing.T) {
	first, second := []byte("data: aaaa\n\n"), []byte("data: b\ndata: c\n: d\n\n")
	var f frame.Frame
	frame.Parse(frame.SSE, first, &f)
	frame.Parse(frame.SSE, second, &f)
	if string(f.Data) != "b\nc" || string(f.Clean) != "data: b\ndata: c\n\n" || f.HasID || len(f.Event) > 0 {
		t.Errorf("got %+v, want the second frame alone", f)
	}
	if string(first) != "data: aaaa\n\n" || string(second) != "data: b\ndata: c\n: d\n\n" {
		t.Errorf("got stored frames %q and %q, want them unchanged", first, second)
	}
	frame.Parse(frame.Lines, []byte("x\n"), &f)
	if string(f.Data) != "x" || string(f.Clean) != "x\n" {
		t.Errorf("got %+v, want the line alone", f)
	}
}
