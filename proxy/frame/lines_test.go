package frame_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// linesOf is the second opinion on line formats: the non-empty lines of a
// body, without their ends.
func linesOf(body []byte) []string {
	var lines []string
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if text := strings.TrimSuffix(string(line), "\r"); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

func TestLinesBecomeFrames(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string // raw frames
	}{
		{"lines", "{\"n\":1}\n{\"n\":2}\n", []string{"{\"n\":1}\n", "{\"n\":2}\n"}},
		{"CRLF is kept", "a\r\nb\r\n", []string{"a\r\n", "b\r\n"}},
		{"CR alone is no line end", "a\rb\n\rc\n", []string{"a\rb\n", "\rc\n"}},
		{"blank lines have no number", "\n\r\na\n\n\r\n\nb\n\n", []string{"a\n", "b\n"}},
		{"a space is not blank", " \n\t\n", []string{" \n", "\t\n"}},
		{"not JSON", "0:\"hi\"\nnonsense\n", []string{"0:\"hi\"\n", "nonsense\n"}},
		{"a mark is content", "\uFEFFa\n", []string{"\uFEFFa\n"}},
		{"last line without end", "a\nb", []string{"a\n", "b"}},
		{"last line with half an end", "a\nb\r", []string{"a\n", "b\r"}},
		{"half an end only", "a\n\r", []string{"a\n"}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkLines(t, []byte(tt.body), tt.want)
		})
	}
}

func checkLines(t *testing.T, body []byte, want []string) {
	t.Helper()
	var raw, data []string
	for _, f := range sameForEveryChunking(t, frame.Lines, body).frames() {
		raw, data = append(raw, f.raw), append(data, f.data)
		if f.clean != f.raw || !f.hasData || f.hasID || f.event != "" || f.lastID != "" {
			t.Errorf("got %+v, want a clean frame as received, with data and without other fields", f)
		}
		f.lastID = ""
		if got := parsed(frame.Lines, []byte(f.clean)); got != f {
			t.Errorf("got %+v from stored frame, want %+v", got, f)
		}
	}
	if want != nil && !slices.Equal(raw, want) {
		t.Errorf("got frames %q, want %q", raw, want)
	}
	if want := linesOf(body); !slices.Equal(data, want) {
		t.Errorf("got data %q, want %q", data, want)
	}
}

func TestLastLineOfABrokenBodyIsDropped(t *testing.T) {
	got := cutUntil(frame.Lines, 0, whole([]byte("a\n{\"n\":")), false)
	if frames := got.frames(); len(frames) != 1 || frames[0].data != "a" {
		t.Errorf("got frames %+v, want the whole line only", frames)
	}
	if got.joined() != "a\n{\"n\":" {
		t.Errorf("got pieces %q, want the whole body", got.joined())
	}
}
