package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Recording returns the body of a recorded stream, by its path in the folder of
// recordings. Payloads that were recorded one a line get the framing of an event
// stream. Of a file that holds several streams under headings, a name with # and
// a heading is one.
func Recording(t testing.TB, name string) []byte {
	t.Helper()
	file, heading, part := strings.Cut(name, "#")
	body, err := os.ReadFile(filepath.Join(RequireFixtures(t), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case part:
		_, after, found := strings.Cut("\n"+string(body), "\n## "+heading+"\n")
		if !found {
			t.Fatalf("%s: no heading %q", file, heading)
		}
		section, _, _ := strings.Cut(after, "\n## ")
		return []byte(section + "\n\n")
	case strings.HasSuffix(file, ".jsonl"):
		return framedLines(body)
	default:
		return body
	}
}

func framedLines(body []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(body) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSpace(line))
		b.WriteString("\n\n")
	}
	return b.Bytes()
}
