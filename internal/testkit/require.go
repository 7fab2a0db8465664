package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Missing reports a component that a test cannot do without: it skips the test
// on a developer's machine and fails it in CI.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and CI must have it", what)
	}
	t.Skipf("%s is missing", what)
}

// RequireProgram returns the path of the first of the named programs that is
// installed.
func RequireProgram(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, names[0])
	return ""
}

// RequireFixtures returns the folder of recorded streams: the one that
// AGENT_RUNS_FIXTURES names, else shared/fixtures beside the project.
func RequireFixtures(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("AGENT_RUNS_FIXTURES")
	if folder == "" {
		folder = filepath.Join(moduleRoot(t), "..", "shared", "fixtures")
	}
	if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
		Missing(t, "the folder of recorded streams")
	}
	return folder
}

// moduleRoot is the folder of go.mod above the package under test.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test")
	return ""
}
