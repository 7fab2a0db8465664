package frame_test

import (
	"os"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

func TestContentTypeDecidesTheFraming(t *testing.T) {
	tests := []struct {
		name, contentType string
		kind              frame.Kind
		framed            bool
	}{
		{"format-mime-bogus", "x bogus", frame.Opaque, false},
		{"format-mime-valid-bogus", "text/x-bogus", frame.Opaque, false},
		{"format-mime-trailing-semicolon", "text/event-stream;", frame.SSE, true},
		{"format-utf-8", "text/event-stream;charset=windows-1252", frame.SSE, true},
		{"bad parameter", `text/event-stream; =";`, frame.SSE, true},
		{"spaces", "\ttext/event-stream \t; charset=utf-8", frame.SSE, true},
		{"absent", "", frame.Opaque, false},
		{"parameters only", "; text/event-stream", frame.Opaque, false},
		{"x-ndjson", "application/x-ndjson", frame.Lines, true},
		{"ndjson", "Application/NDJSON", frame.Lines, true},
		{"jsonl", "application/jsonl; charset=utf-8", frame.Lines, true},
		{"x-jsonlines", "application/x-jsonlines", frame.Lines, true},
		{"json-seq", "application/json-seq", frame.Opaque, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kind, framed := frame.KindOf(tt.contentType)
			if kind != tt.kind || framed != tt.framed {
				t.Errorf("got %v, %v, want %v, %v", kind, framed, tt.kind, tt.framed)
			}
			if got, want := frame.IsSSE(tt.contentType), tt.framed && tt.kind == frame.SSE; got != want {
				t.Errorf("got IsSSE %v, want %v", got, want)
			}
		})
	}
}

// Case 03, content type parameters.
func TestContentTypeParametersDoNotMatter(t *testing.T) {
	list, err := os.ReadFile("testdata/cases/03-content-type-parameters/content-types.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		verdict, contentType, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("got line %q, want a verdict and a type", line)
		}
		if _, framed := frame.KindOf(contentType); framed != (verdict == "stream") {
			t.Errorf("got framed %v for %q, want it to be %s", framed, contentType, verdict)
		}
	}
}
