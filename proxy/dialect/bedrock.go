package dialect

import (
	"bytes"
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
// its headers (Smithy 2.0, "Amazon Event Stream Specification").
type exceptions struct {
	seen []byte // between pieces the end of the last one: a header may be cut in two
}

// exceptionHeaders are those that only exceptions and errors have.
var exceptionHeaders = [][]byte{[]byte(":exception-type"), []byte(":error-code")}

const longestHeader = len(":exception-type")

// Read implements [Reader].
func (e *exceptions) Read(f *frame.Frame) (out Facts) {
	e.seen = append(e.seen, f.Raw...)
	for _, header := range exceptionHeaders {
		if bytes.Contains(e.seen, header) {
			out.Outcome, out.Reason = OutcomeFailed, reasonUpstreamError
		}
	}
	e.seen = e.seen[:copy(e.seen, e.seen[max(0, len(e.seen)-longestHeader):])]
	return out
}

// nothing is the [Folder] of frames that are not read.
type nothing struct{}

// Fold implements [Folder].
func (nothing) Fold(uint64, *frame.Frame) {}

// Snapshot implements [Folder].
func (nothing) Snapshot() Snapshot { return new(answer).snapshot() }
