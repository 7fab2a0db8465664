package dialect_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// message is a message of an event stream: headers that are strings, by name
// and value, and a payload.
func message(payload string, headers ...string) []byte {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(h, byte(len(headers[i]))), headers[i]...)
		h = append(binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1]))), headers[i+1]...)
	}
	m := binary.BigEndian.AppendUint32(nil, uint32(len(h)+len(payload)+16))
	m = binary.BigEndian.AppendUint32(m, uint32(len(h)))
	m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
	m = append(append(m, h...), payload...)
	return binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
}

// TestBedrockIsToldByItsContentType.
func TestBedrockIsToldByItsContentType(t *testing.T) {
	h := http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}
	if d, certain := dialect.DetectByResponse("/v1/anything", h); d.Name != "bedrock" || !certain {
		t.Errorf("got %s, certain %t, want bedrock for certain", d.Name, certain)
	}
}

// TestAnExceptionOfBedrockIsAFailure, wherever its pieces are cut, and one that
// an answer speaks of is none.
func TestAnExceptionOfBedrockIsAFailure(t *testing.T) {
	d := lookup(t, "bedrock")
	text := message(`{"delta":{"text":"\u000f:exception-type is a header"}}`, ":event-type", "contentBlockDelta", ":message-type", "event")
	speaks := message("\x0f:exception-type\x07\x00\x01x", ":event-type", "contentBlockDelta")
	for name, tt := range map[string]struct {
		last []byte
		want dialect.Outcome
	}{
		"an event":                 {text, dialect.OutcomeNone},
		"a payload like a header":  {speaks, dialect.OutcomeNone},
		"a value like a header":    {message("{}", ":event-type", "\x0f:exception-type"), dialect.OutcomeNone},
		"an exception":             {message("{}", ":message-type", "exception", ":exception-type", "throttlingException"), dialect.OutcomeFailed},
		"an error":                 {message("", ":message-type", "error", ":error-code", "InternalFailure"), dialect.OutcomeFailed},
		"something that is broken": {[]byte("not a message at all, :exception-type"), dialect.OutcomeNone},
	} {
		body := append(bytes.Clone(text), tt.last...)
		for at := range body {
			r, got := d.NewReader(), dialect.OutcomeNone
			for _, piece := range [][]byte{body[:at], body[at:]} {
				var f frame.Frame
				frame.Parse(frame.Opaque, piece, &f)
				got = max(got, r.Read(&f).Outcome)
			}
			if got != tt.want {
				t.Fatalf("%s, cut at %d: got outcome %d, want %d", name, at, got, tt.want)
			}
		}
	}
}

// TestAnExceptionAfterARecordingIsSeen: real messages are counted to their ends.
func TestAnExceptionAfterARecordingIsSeen(t *testing.T) {
	t.Parallel()
	d := lookup(t, "bedrock")
	for _, name := range of(t, "bedrock") {
		body := testkit.Recording(t, name)
		for last, want := range map[string]string{"": "completed", string(message("{}", ":exception-type", "throttlingException")): "failed"} {
			_, pieces := pieces(t, frame.Opaque, append(bytes.Clone(body), last...), 61)
			if s := read(d, frame.Opaque, pieces); s.state(d) != want {
				t.Errorf("%s and %q: got %s, want %s", name, last, s.state(d), want)
			}
		}
	}
}

// FuzzEventStream: whatever arrives in whatever pieces, the reader says the same
// of it (promise 1).
func FuzzEventStream(f *testing.F) {
	f.Add(message("{}", ":exception-type", "x"), 3)
	f.Add([]byte("\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 1)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"), 5)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		if size <= 0 {
			return
		}
		d := lookup(t, "bedrock")
		var outcomes [2]dialect.Outcome
		for i, n := range []int{size, len(body)} {
			r := d.NewReader()
			for _, piece := range parsed(frame.Opaque, cut(t, frame.Opaque, body, n)) {
				outcomes[i] = max(outcomes[i], r.Read(&piece).Outcome)
			}
		}
		if outcomes[0] != outcomes[1] {
			t.Errorf("got outcome %d in pieces of %d, want %d", outcomes[0], size, outcomes[1])
		}
	})
}
