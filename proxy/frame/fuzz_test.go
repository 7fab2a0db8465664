package frame_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// FuzzSSE holds any bytes against the laws of event streams, with a limit and
// without.
func FuzzSSE(f *testing.F) {
	for _, v := range vectors {
		f.Add([]byte(v.body), uint8(12))
	}
	for _, w := range wpt {
		f.Add([]byte(w.body), uint8(20))
	}
	wires, err := filepath.Glob("testdata/cases/*/wire*.bin")
	if err != nil || len(wires) == 0 {
		f.Fatalf("got no wires, error %v", err)
	}
	for _, wire := range wires {
		body, err := os.ReadFile(wire)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, uint8(30))
	}
	f.Fuzz(func(t *testing.T, body []byte, limit uint8) {
		checkLaws(t, body)
		checkLimit(t, frame.SSE, int(limit)+1, body)
	})
}

// FuzzLines holds any bytes against the laws of line formats.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"n\":1}\n{\"n\":2}\r\n\n\r\n{\"n\":3}"), uint8(8))
	f.Add([]byte("0:\"a\"\rb\nd:{}\r"), uint8(6))
	f.Fuzz(func(t *testing.T, body []byte, limit uint8) {
		checkLines(t, body, nil)
		checkLimit(t, frame.Lines, int(limit)+1, body)
		if got := cutUntil(frame.Lines, 0, whole(body), false); got.joined() != string(body) {
			t.Fatalf("got pieces %q of a broken body, want %q", got.joined(), body)
		}
	})
}

// FuzzEvent: whatever is put into an event comes out of it, and nothing else.
func FuzzEvent(f *testing.F) {
	f.Add("run.end", []byte(`{"state":"completed"}`))
	f.Add("a\r\nid: 1", []byte("x\r\rid: 2\n\ndata: y"))
	f.Add(" ", []byte(" "))
	f.Fuzz(func(t *testing.T, event string, data []byte) {
		block := frame.AppendEvent(nil, event, data)
		want := cut{
			raw: string(block), clean: string(block), hasData: true,
			event: strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(event),
			data:  anyLineEnd.ReplaceAllString(string(data), "\n"),
		}
		if got := parsed(frame.SSE, block); got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if frames := checkLaws(t, block); len(frames) != 1 || frames[0] != want {
			t.Fatalf("got  %+v\nwant %+v alone", frames, want)
		}
	})
}
