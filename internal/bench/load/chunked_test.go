package load

import (
	"strings"
	"testing"
)

const chunkedBody = "5\r\nhello\r\n1;name=value\r\n,\r\nA\r\n wide\r\nwor\r\n2\r\nld\r\nb\r\n!0123456789\r\n0\r\n\r\n"

func TestChunksDecodeWhateverTheReads(t *testing.T) {
	const want = "hello, wide\r\nworld!0123456789"
	for size := 1; size <= len(chunkedBody); size++ {
		var c chunked
		var got []byte
		for rest := chunkedBody; rest != ""; {
			n := min(size, len(rest))
			var err error
			if got, err = c.decode(got, []byte(rest[:n])); err != nil {
				t.Fatalf("in reads of %d: %v", size, err)
			}
			rest = rest[n:]
		}
		if string(got) != want || c.state != chunksDone {
			t.Errorf("in reads of %d: got %q, state %d, want %q and the end", size, got, c.state, want)
		}
	}
}

func TestMalformedChunksAreTold(t *testing.T) {
	for _, body := range []string{"x\r\n", "5\nhello", "2\r\nabc\r\n", "0\r\n\r\nmore", "0\r\nTrailer: x\r\n", strings.Repeat("f", 9) + "\r\n"} {
		var c chunked
		if got, err := c.decode(nil, []byte(body)); err == nil {
			t.Errorf("decoding %q: got %q, want an error", body, got)
		}
	}
}
