package sdktest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// hearer is a script that prints each part of a stream that it hears, and at
// the end a line that is no part.
type hearer struct{ *npm.Script }

// part is a part of a stream as the client got it.
type part struct {
	Event string
	Data  json.RawMessage
}

// rest reads the parts up to the end of the stream, which is the last line.
func (h hearer) rest(t *testing.T) (parts []part, end string) {
	t.Helper()
	for {
		line := h.Line(t)
		var p part
		if json.Unmarshal([]byte(line), &p) != nil {
			return parts, line
		}
		parts = append(parts, p)
	}
}

// until reads the parts up to one whose data holds a text.
func (h hearer) until(t *testing.T, text string) (parts []part) {
	t.Helper()
	for {
		p := npm.Result[part](t, h.Script)
		parts = append(parts, p)
		if strings.Contains(string(p.Data), text) {
			return parts
		}
	}
}

// sameParts fails the test unless two clients heard the same.
func sameParts(t *testing.T, got, want []part) {
	t.Helper()
	equal := func(a, b part) bool { return a.Event == b.Event && string(a.Data) == string(b.Data) }
	if !slices.EqualFunc(got, want, equal) {
		t.Errorf("the client heard\n%s\nwant\n%s", show(got), show(want))
	}
}

func show(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Event + " " + string(p.Data) + "\n")
	}
	return b.String()
}
