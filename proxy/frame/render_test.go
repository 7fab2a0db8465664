package frame_test

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestIDComesFirstInTheNewlineStyleOfTheBlock(t *testing.T) {
	tests := []struct{ name, clean, want string }{
		{"LF", "event: a\ndata: b\n\n", "id: r.1\nevent: a\ndata: b\n\n"},
		{"CRLF", "data: b\r\n\r\n", "id: r.1\r\ndata: b\r\n\r\n"},
		{"CR", "data: a\rdata: b\r\r", "id: r.1\rdata: a\rdata: b\r\r"},
		{"LF first, then CR", "data: a\ndata: b\r\r", "id: r.1\ndata: a\ndata: b\r\r"},
		{"CR first, then LF", "data: a\rdata: b\n\n", "id: r.1\rdata: a\rdata: b\n\n"},
		{"CRLF first, then LF", "data: a\r\ndata: b\n\n", "id: r.1\r\ndata: a\r\ndata: b\n\n"},
		{"half a block", "data: a\r", "id: r.1\rdata: a\r"},
		{"no block", "", "id: r.1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(frame.AppendID([]byte("before\n"), []byte(tt.clean), []byte("r.1")))
			if want := "before\n" + tt.want; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestEventCannotBreakOutOfItsFields(t *testing.T) {
	tests := []struct{ name, event, data, want string }{
		{"plain", "run.end", `{"state":"completed"}`, "event: run.end\ndata: {\"state\":\"completed\"}\n\n"},
		{"no type", "", "x", "data: x\n\n"},
		{"no data", "a", "", "event: a\ndata: \n\n"},
		{"spaces survive", " a", " b", "event:  a\ndata:  b\n\n"},
		{"lines", "", "a\nid: 1\n\nevent: x", "data: a\ndata: id: 1\ndata: \ndata: event: x\n\n"},
		{"every line end", "", "a\rb\r\nc\n", "data: a\ndata: b\ndata: c\ndata: \n\n"},
		{"line end in the type", "a\r\nid: 1\x00", "x", "event: aid: 1\ndata: x\n\n"},
		{"nothing left of the type", "\n\x00", "x", "data: x\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(frame.AppendEvent(nil, tt.event, []byte(tt.data))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLineIsShownAsAnEvent is how a reader that asked for an event stream gets
// a run of lines.
func TestLineIsShownAsAnEvent(t *testing.T) {
	var f frame.Frame
	frame.Parse(frame.Lines, []byte("{\"n\":1}\r\n"), &f)
	got := string(frame.AppendEvent(frame.AppendID(nil, nil, []byte("r.1")), "", f.Data))
	if want := "id: r.1\ndata: {\"n\":1}\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAppendOwnKeepsTheBlocksOwnID(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"data: x\n\n", "data: x\n\n"},
		{"id: 7\nretry: 1000\ndata: \n\n", "id: 7\ndata: \n\n"},
		{": ping\r\nevent: message\r\nid: 7\r\nretry\r\ndata: x\r\n\r\n", "event: message\r\nid: 7\r\ndata: x\r\n\r\n"},
		{"data: x\r: c\r\r", "data: x\r\r"},
	} {
		if got := string(frame.AppendOwn([]byte("before"), []byte(tt.raw))); got != "before"+tt.want {
			t.Errorf("of %q got %q, want %q", tt.raw, got, "before"+tt.want)
		}
	}
}
