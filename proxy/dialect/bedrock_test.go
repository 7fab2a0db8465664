package dialect_test

import (
	"net/http"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// message is a message of an event stream as far as it matters here.
func message(kind, payload string) []byte {
	return []byte("\x00\x00\x00\x7a\x00\x00\x00\x4b\x12\x34\x56\x78" + kind + "\x07\x00\x05delta" + payload + "\x9a\xbc\xde\xf0")
}

// TestBedrockIsToldByItsContentType.
func TestBedrockIsToldByItsContentType(t *testing.T) {
	h := http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}
	if d, certain := dialect.DetectByResponse("/v1/anything", h); d.Name != "bedrock" || !certain {
		t.Errorf("got %s, certain %t, want bedrock for certain", d.Name, certain)
	}
}

// TestAnExceptionOfBedrockIsAFailure, wherever its pieces are cut.
func TestAnExceptionOfBedrockIsAFailure(t *testing.T) {
	d, _ := dialect.Lookup("bedrock")
	for kind, want := range map[string]dialect.Outcome{
		"\x0b:event-type":     dialect.OutcomeNone,
		"\x0f:exception-type": dialect.OutcomeFailed,
		"\x0b:error-code":     dialect.OutcomeFailed,
	} {
		body := append(message("\x0b:event-type", `{"delta":{"text":"hi"}}`), message(kind, `{"message":"no"}`)...)
		for at := range body {
			r, got := d.NewReader(), dialect.OutcomeNone
			for _, piece := range [][]byte{body[:at], body[at:]} {
				var f frame.Frame
				frame.Parse(frame.Opaque, piece, &f)
				got = max(got, r.Read(&f).Outcome)
			}
			if got != want {
				t.Fatalf("%q cut at %d: got outcome %d, want %d", kind, at, got, want)
			}
		}
	}
}
