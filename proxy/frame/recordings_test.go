package frame_test

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// recordings returns the recorded streams of real providers with this
// extension. They are not part of the project: without them the test is
// skipped, except in CI, where that is a failure.
func recordings(t *testing.T, extension string) map[string][]byte {
	t.Helper()
	root := cmp.Or(os.Getenv("AGENT_RUNS_FIXTURES"), filepath.Join("..", "..", "..", "shared", "fixtures"))
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("recorded streams are missing: %v", err)
		}
		t.Skipf("recorded streams are not here: %v", err)
	}
	bodies := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != extension {
			return err
		}
		name, _ := filepath.Rel(root, path)
		bodies[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(bodies) == 0 {
		t.Fatalf("got no %s recording, want at least one", extension)
	}
	return bodies
}

func TestRecordedEventStreamsKeepTheLaws(t *testing.T) {
	for name, body := range recordings(t, ".sse") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if frames := checkLaws(t, body); len(frames) == 0 {
				t.Error("got no frame, want some")
			}
		})
	}
}

// TestRecordedEventStreamsKeepTheLawsWhenDisguised gives the recordings what
// none of them has: a byte order mark, CR line ends, and an end in the middle
// of everything.
func TestRecordedEventStreamsKeepTheLawsWhenDisguised(t *testing.T) {
	for name, body := range recordings(t, ".sse") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body = body[:min(len(body), 2048)]
			body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
			want := len(checkLaws(t, body))
			for _, newline := range []string{"\r\n", "\r"} {
				disguised := append([]byte("\uFEFF"), bytes.ReplaceAll(body, []byte("\n"), []byte(newline))...)
				if got := len(checkLaws(t, disguised)); got != want {
					t.Errorf("with newline %q got %d frames, want %d", newline, got, want)
				}
			}
		})
	}
}

func TestRecordedLinesAreFrames(t *testing.T) {
	for name, body := range recordings(t, ".ndjson") {
		t.Run(name, func(t *testing.T) {
			frames := sameForEveryChunking(t, frame.Lines, body).frames()
			if want := len(linesOf(body)); len(frames) != want || want == 0 {
				t.Errorf("got %d frames, want %d and some", len(frames), want)
			}
		})
	}
}
