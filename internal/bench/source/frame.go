package source

import "bytes"

// FrameSize is the size of each frame in bytes, blank line included.
const FrameSize = 120

// BurstFrames is how many frames a burst sends in one write. Each is a chunk of
// its own: to its reader it looks like a backend that flushes each frame and
// does not pause, without the cost of a system call per frame.
const BurstFrames = 32

const (
	opening = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"`
	closing = `"}}]}` + "\n\n"

	stampDigits = 19 // Unix time in nanoseconds
	seqDigits   = FrameSize - len(opening) - len(closing) - stampDigits
)

// contentMark is where the stamp begins; what stands before it in the block may
// have been changed on the way.
var contentMark = []byte(`"content":"`)

// EndMarker is the block that ends a stream.
const EndMarker = "data: [DONE]\n\n"

// AppendFrame appends frame number seq, sent at Unix time at in nanoseconds.
func AppendFrame(dst []byte, seq uint64, at int64) []byte {
	dst = append(dst, opening...)
	dst = appendDigits(dst, uint64(at), stampDigits)
	dst = appendDigits(dst, seq, seqDigits)
	return append(dst, closing...)
}

// ParseFrame reads number and time from an SSE block that holds one of our
// frames, whatever fields were put around it.
func ParseFrame(block []byte) (seq uint64, at int64, ok bool) {
	_, digits, found := bytes.Cut(block, contentMark)
	if !found || len(digits) < stampDigits+seqDigits {
		return 0, 0, false
	}
	stamp, ok1 := parseDigits(digits[:stampDigits])
	seq, ok2 := parseDigits(digits[stampDigits : stampDigits+seqDigits])
	return seq, int64(stamp), ok1 && ok2
}

// appendDigits appends v in exactly n decimal digits.
func appendDigits(dst []byte, v uint64, n int) []byte {
	start := len(dst)
	for range n {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start && v > 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}

func parseDigits(text []byte) (uint64, bool) {
	var v uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}
