package dialect

import (
	"encoding/binary"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// bedrock is the event stream of Amazon Bedrock: binary messages, which are
// stored and replayed as they came. A clean end is completed, unless a message
// says that it is an exception. Its text, tools and usage are not read, and
// since every message is signed by its checksums there is no way to add one.
var bedrock = &Dialect{
	Name: "bedrock", Kind: frame.Opaque, CleanEnd: true,
	generations: []string{"/model/*/converse-stream", "/model/*/invoke-with-response-stream"},
	NewReader:   func() Reader { return &exceptions{} },
	NewFolder:   func() Folder { return nothing{} },
	Type:        func(*frame.Frame) string { return "other" },
	Failure:     func(Failure) [][]byte { return nil },
	certain:     func(*frame.Frame) bool { return false },
	plausible:   func(*frame.Frame) bool { return true },
}

// eventStream is the content type of Amazon's event streams.
const eventStream = "application/vnd.amazon.eventstream"

func isEventStream(h http.Header) bool { return h.Get("Content-Type") == eventStream }

// exceptions is the [Reader] of an event stream. A message is an exception by
// its headers (Smithy 2.0, "Amazon Event Stream Specification"): what stands in
// its payload says nothing, since an answer may speak of exceptions.
type exceptions struct {
	head   []byte // of the message that arrives: its prelude and headers so far
	rest   int    // bytes of the message that are still to come behind them
	broken bool   // this is no such stream
}

// The sizes of a message: lengths of all of it and of its headers with their
// checksum, and the checksum at its end. Headers are at most 128 KiB long.
const (
	preludeSize = 12
	checkSize   = 4
	maxHeaders  = 128 << 10
)

// Read implements [Reader].
func (e *exceptions) Read(f *frame.Frame) (out Facts) {
	for data := f.Raw; len(data) > 0 && !e.broken; {
		if e.rest > 0 {
			n := min(e.rest, len(data))
			data, e.rest = data[n:], e.rest-n
			continue
		}
		missing := preludeSize
		if len(e.head) >= preludeSize {
			missing += e.headers()
		}
		n := min(missing-len(e.head), len(data))
		e.head, data = append(e.head, data[:n]...), data[n:]
		if e.check(); len(e.head) < preludeSize || len(e.head) < preludeSize+e.headers() {
			continue
		}
		if isException(e.head[preludeSize:]) {
			out.Outcome, out.Reason = OutcomeFailed, reasonUpstreamError
		}
		e.rest, e.head = e.length()-len(e.head), e.head[:0]
	}
	return out
}

func (e *exceptions) length() int { return int(binary.BigEndian.Uint32(e.head)) }

func (e *exceptions) headers() int { return int(binary.BigEndian.Uint32(e.head[4:])) }

// check gives up on what no message begins with.
func (e *exceptions) check() {
	if len(e.head) == preludeSize {
		e.broken = e.headers() > maxHeaders || e.length() < preludeSize+e.headers()+checkSize
	}
}

// isException looks for headers that only exceptions and errors have.
func isException(headers []byte) bool {
	for len(headers) > 1 {
		end := 1 + int(headers[0])
		if end >= len(headers) {
			return false
		}
		if name := string(headers[1:end]); name == ":exception-type" || name == ":error-code" {
			return true
		}
		size := valueSize(headers[end], headers[end+1:])
		if size > len(headers)-end-1 {
			return false
		}
		headers = headers[end+1+size:]
	}
	return false
}

// valueSize is the size of the value of a header, by its type.
func valueSize(kind byte, value []byte) int {
	sizes := [...]int{0, 0, 1, 2, 4, 8, 0, 0, 8, 16}
	switch {
	case kind == 6 || kind == 7: // bytes and strings have their length before them
		if len(value) < 2 {
			return len(value)
		}
		return 2 + int(binary.BigEndian.Uint16(value))
	case int(kind) < len(sizes):
		return sizes[kind]
	default:
		return len(value)
	}
}

// nothing is the [Folder] of frames that are not read.
type nothing struct{}

// Fold implements [Folder].
func (nothing) Fold(uint64, *frame.Frame) {}

// Snapshot implements [Folder].
func (nothing) Snapshot() Snapshot { return new(answer).snapshot() }
