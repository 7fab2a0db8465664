package frame_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// Faults that users reported against other proxies and readers. Each wire
// must give the same frames for every way to cut it in two.
func TestReportedFaults(t *testing.T) {
	tests := []struct{ title, folder string }{
		{"case 35 crlf split", "35-crlf-split"},
		{"case 37 byte order mark", "37-byte-order-mark"},
		{"case 38 utf8 split", "38-utf8-split"},
		{"case 41 upstream comments are not frames", "41-upstream-comments-are-not-frames"},
	}
	for _, tt := range tests {
		t.Run(tt.title, func(t *testing.T) {
			var expected struct {
				Variants map[string]struct{ Frames [][2]string }
			}
			readCase(t, tt.folder, "expect.json", &expected)
			for name, variant := range expected.Variants {
				t.Run(name, func(t *testing.T) {
					testWire(t, readWire(t, tt.folder, "wire-"+name+".bin"), variant.Frames)
				})
			}
		})
	}
}

func testWire(t *testing.T, wire []byte, frames [][2]string) {
	t.Helper()
	var want []message
	for _, f := range frames {
		want = append(want, message{f[0], f[1], ""})
	}
	got := asMessages(checkLaws(t, wire))
	for i := range got {
		got[i].data = strings.ToValidUTF8(got[i].data, "\uFFFD") // as a client decodes it
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	all := cutBody(frame.SSE, 0, whole(wire))
	for i := range wire {
		sameOutcome(t, all, cutBody(frame.SSE, 0, cutAt(wire, i)), cutAt(wire, i))
	}
}

func readWire(t *testing.T, folder, name string) []byte {
	t.Helper()
	wire, err := os.ReadFile(filepath.Join("testdata", "cases", folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func readCase(t *testing.T, folder, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(readWire(t, folder, name), v); err != nil {
		t.Fatal(err)
	}
}

// Case 44, ndjson chunking.
func TestNDJSONChunking(t *testing.T) {
	var expected struct{ Frames []string }
	readCase(t, "44-ndjson-chunking", "expect.json", &expected)
	wire := readWire(t, "44-ndjson-chunking", "wire.bin")
	var got []string
	for _, f := range sameForEveryChunking(t, frame.Lines, wire).frames() {
		got = append(got, f.data)
	}
	if !slices.Equal(got, expected.Frames) {
		t.Errorf("got %q, want %q", got, expected.Frames)
	}
}

// longWire is an event with a line of n payload bytes between two small ones.
func longWire(n int) []byte {
	const digits = "0123456789abcdef"
	payload := strings.Repeat(digits, n/len(digits)+1)[:n]
	return fmt.Appendf(nil, "data: before\n\ndata: %s\n\ndata: after\n\n", payload)
}

// Case 39, long lines.
func TestLongLines(t *testing.T) {
	var expected struct {
		Bytes  map[string]int    `json:"payload_bytes"`
		SHA256 map[string]string `json:"payload_sha256"`
	}
	readCase(t, "39-long-lines", "expect.json", &expected)
	if len(expected.Bytes) != 3 {
		t.Fatalf("got %d wires, want 3", len(expected.Bytes))
	}
	for name, n := range expected.Bytes {
		wire := longWire(n)
		for _, chunks := range longChunkings(wire) {
			frames := cutBody(frame.SSE, 8<<20, chunks).frames()
			if len(frames) != 3 || frames[0].data != "before" || frames[2].data != "after" {
				t.Fatalf("%s: got %d frames, want 3 with the long one in the middle", name, len(frames))
			}
			hash := sha256.Sum256([]byte(frames[1].data))
			if got := hex.EncodeToString(hash[:]); len(frames[1].data) != n || got != expected.SHA256[name] {
				t.Errorf("%s: got %d bytes with hash %s, want %d with %s", name, len(frames[1].data), got, n, expected.SHA256[name])
			}
		}
	}
}

func longChunkings(wire []byte) []iter.Seq[[]byte] {
	small := max(1, len(wire)>>16) // single bytes, unless that takes seconds
	return []iter.Seq[[]byte]{
		whole(wire), pieces(wire, small), pieces(wire, 4093), pieces(wire, 32<<10), cutAt(wire, len(wire)-13),
	}
}

// Case 39, long lines, over the limit.
func TestLongLineOverTheLimitEndsTheCut(t *testing.T) {
	wire := longWire(4 << 20)
	for _, chunks := range longChunkings(wire) {
		got := cutBody(frame.SSE, 1<<20, chunks)
		if !errors.Is(got.err, frame.ErrTooLong) {
			t.Errorf("got error %v, want %v", got.err, frame.ErrTooLong)
		}
		if frames := got.frames(); len(frames) != 1 || frames[0].data != "before" {
			t.Errorf("got %d frames, want the one before the long line", len(frames))
		}
		if !bytes.HasPrefix(wire, []byte(got.joined())) {
			t.Errorf("got pieces %.40q, want the beginning of the body", got.joined())
		}
	}
}
