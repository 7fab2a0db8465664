// Package npm runs JavaScript programs with the packages that they need: the
// unmodified clients and servers of other people, as they come from their
// makers.
package npm

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// Folder is a folder of scripts beside the tests, with the packages that its
// lock file names. They are installed once, at the first use.
type Folder struct {
	source string
	shared []string

	once   sync.Once
	folder string
	err    error
	out    []byte
}

// NewFolder returns the folder of a name. What is in the shared folders is laid
// beside its scripts.
func NewFolder(source string, shared ...string) *Folder {
	return &Folder{source: source, shared: shared}
}

// String is the folder's name.
func (f *Folder) String() string { return f.source }

// install copies the scripts and installs their packages.
func (f *Folder) install(t testing.TB) {
	t.Helper()
	testkit.RequireProgram(t, "node")
	npm := testkit.RequireProgram(t, "npm")
	f.once.Do(func() {
		if f.folder, f.err = os.MkdirTemp("", f.source); f.err != nil { //nolint:usetesting // every test of the package uses it
			return
		}
		for _, from := range append([]string{f.source}, f.shared...) {
			if f.err = os.CopyFS(f.folder, os.DirFS(from)); f.err != nil {
				return
			}
		}
		install := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = f.folder
		f.out, f.err = install.CombinedOutput()
	})
	if f.err != nil {
		t.Fatalf("installing what %s needs: %v\n%s", f.source, f.err, f.out)
	}
}

// Remove removes what was installed.
func (f *Folder) Remove() {
	if f.folder != "" {
		_ = os.RemoveAll(f.folder) // a temporary folder
	}
}

// Script is a program of such a folder that is running.
type Script struct {
	process *os.Process
	in      io.WriteCloser
	out     *bufio.Reader
}

// Run starts a script, which is killed with the test at the latest. What it
// writes to stderr stands in the test's log.
func (f *Folder) Run(t testing.TB, name string, args ...string) *Script {
	t.Helper()
	f.install(t)
	s := &Script{}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(f.folder, name)}, args...)...)
	cmd.Dir, cmd.Stderr = f.folder, t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		s.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.process, s.out = cmd.Process, bufio.NewReader(out)
	t.Cleanup(func() { _ = cmd.Wait() }) // killed: the context of a test ends before
	return s
}

// Kill ends the script at once, as kill -9 does.
func (s *Script) Kill(t testing.TB) {
	t.Helper()
	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Line is the next line that the script prints. One that prints nothing for
// long is killed.
func (s *Script) Line(t testing.TB) string {
	t.Helper()
	late := time.AfterFunc(2*testkit.Patience, func() { _ = s.process.Kill() })
	defer late.Stop()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("script ended, or printed nothing for %v, after %q: %v", 2*testkit.Patience, line, err)
	}
	return line[:len(line)-1]
}

// Says checks the next lines that the script prints.
func (s *Script) Says(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := s.Line(t); got != w {
			t.Fatalf("script printed %q, want %q", got, w)
		}
	}
}

// Tell gives the script a line.
func (s *Script) Tell(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatalf("script takes nothing more: %v", err)
	}
}

// Result decodes the next line that the script prints.
func Result[T any](t testing.TB, s *Script) T {
	t.Helper()
	var result T
	if line := s.Line(t); json.Unmarshal([]byte(line), &result) != nil {
		t.Fatalf("script printed %q, want JSON", line)
	}
	return result
}
