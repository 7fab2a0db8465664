package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Recording returns the body of a recorded stream, by its path in the folder of
// recordings. Payloads that were recorded one a line get the framing of an event
// stream, whose event field is the type that a payload begins with. Of a file that holds several streams under headings, a name with # and
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

// ownType is the type at the head of a payload, which need not be whole JSON.
var ownType = regexp.MustCompile(`^\{"type":"([a-z_.]+)"`)

func framedLines(body []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(body) {
		if named := ownType.FindSubmatch(line); named != nil {
			b.WriteString("event: " + string(named[1]) + "\n")
		}
		b.WriteString("data: ")
		b.Write(bytes.TrimSpace(line))
		b.WriteString("\n\n")
	}
	return b.Bytes()
}

// Recordings are the names of the recorded streams in a folder that begin as
// said.
func Recordings(t testing.TB, folder, begin string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(RequireFixtures(t), folder))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); name != "MANIFEST.md" && strings.HasPrefix(name, begin) {
			found = append(found, folder+"/"+name)
		}
	}
	if len(found) == 0 {
		t.Fatalf("found no recordings in %s that begin with %q", folder, begin)
	}
	return found
}
