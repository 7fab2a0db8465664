package frame_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// sample returns an SSE block of 120 bytes, the size of a chat completion
// token in the benchmarks of the project, with the newline style given.
func sample(newline string) []byte {
	const head = `data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"`
	tail := `"}}]}` + newline + newline
	return []byte(head + strings.Repeat("x", 120-len(head)-len(tail)) + tail)
}

func BenchmarkCutOneFrameEachCall(b *testing.B) {
	b.Run("LF", func(b *testing.B) { benchmarkCut(b, frame.SSE, sample("\n"), 1) })
	b.Run("CRLF", func(b *testing.B) { benchmarkCut(b, frame.SSE, sample("\r\n"), 1) })
}

func BenchmarkCutBurst(b *testing.B) {
	const read = 273 // frames in 32 kB
	b.Run("LF", func(b *testing.B) { benchmarkCut(b, frame.SSE, bytes.Repeat(sample("\n"), read), read) })
	b.Run("CRLF", func(b *testing.B) { benchmarkCut(b, frame.SSE, bytes.Repeat(sample("\r\n"), read), read) })
	b.Run("CR", func(b *testing.B) { benchmarkCut(b, frame.SSE, bytes.Repeat(sample("\r"), read), read) })
	b.Run("with ids", func(b *testing.B) {
		block := append([]byte("event: message\nid: 42\n"), sample("\n")...)
		benchmarkCut(b, frame.SSE, bytes.Repeat(block, 230), 230)
	})
	b.Run("lines", func(b *testing.B) {
		benchmarkCut(b, frame.Lines, bytes.Repeat(sample("\n"), read), read)
	})
}

// BenchmarkCutHalves cuts frames that never arrive whole.
func BenchmarkCutHalves(b *testing.B) {
	half := sample("\n")
	half = append(half[60:], half[:60]...)
	benchmarkCut(b, frame.SSE, half, 1)
}

// BenchmarkCutShortLines cuts and cleans a block of very many lines that end
// with CR: searching each time for an LF as well would make it quadratic.
func BenchmarkCutShortLines(b *testing.B) {
	block := append(bytes.Repeat([]byte("data\r:\r"), 1<<15), '\r')
	benchmarkCut(b, frame.SSE, block, 1)
}

// benchmarkCut cuts input over and over and reports the time per frame, of
// which there are so many in the input.
func benchmarkCut(b *testing.B, kind frame.Kind, input []byte, frames int) {
	b.Helper()
	cutter, got := frame.New(kind, 8<<20), 0
	sink := frame.Sink{Frame: func(*frame.Frame) error { got++; return nil }, Dropped: func([]byte) {}}
	b.ReportAllocs()
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		if err := cutter.Cut(input, sink); err != nil {
			b.Fatal(err)
		}
	}
	if want := b.N * frames; got < want-1 { // the first input may be half a frame
		b.Fatalf("got %d frames, want %d", got, want)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(got), "ns/frame")
}

// BenchmarkCutLongLine cuts one frame of 4 MB; the time per byte must not
// depend on the size of the pieces beyond the cost of a call.
func BenchmarkCutLongLine(b *testing.B) {
	body := fmt.Appendf(nil, "data: %s\n\n", strings.Repeat("0123456789abcdef", 1<<18))
	for _, size := range []int{32 << 10, 1 << 10, 1} {
		b.Run(fmt.Sprintf("by %d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				cutter := frame.New(frame.SSE, 8<<20)
				for piece := range pieces(body, size) {
					if err := cutter.Cut(piece, frame.Sink{Frame: func(*frame.Frame) error { return nil }}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	block := sample("\n")
	var f frame.Frame
	b.ReportAllocs()
	for b.Loop() {
		frame.Parse(frame.SSE, block, &f)
	}
}

func BenchmarkAppendID(b *testing.B) {
	block, id := sample("\n"), []byte("run_7x00000000000000000000000000.184")
	dst := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		dst = frame.AppendID(dst[:0], block, id)
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	data := bytes.TrimPrefix(bytes.TrimSpace(sample("\n")), []byte("data: "))
	dst := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		dst = frame.AppendEvent(dst[:0], "run.state", data)
	}
}
