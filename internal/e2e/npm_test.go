package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// npmFolder is a folder of scripts with the packages that their lock file
// names, installed once.
type npmFolder struct {
	source string // beside the tests

	once   sync.Once
	folder string
	err    error
	out    []byte
}

// install copies the scripts, installs their packages and returns where.
func (n *npmFolder) install(t *testing.T) string {
	t.Helper()
	testkit.RequireProgram(t, "node")
	npm := testkit.RequireProgram(t, "npm")
	n.once.Do(func() {
		if n.folder, n.err = os.MkdirTemp("", n.source); n.err != nil { //nolint:usetesting // every test of the package uses it
			return
		}
		if n.err = os.CopyFS(n.folder, os.DirFS(n.source)); n.err != nil {
			return
		}
		install := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = n.folder
		n.out, n.err = install.CombinedOutput()
	})
	if n.err != nil {
		t.Fatalf("installing what %s needs: %v\n%s", n.source, n.err, n.out)
	}
	return n.folder
}

// remove removes what was installed.
func (n *npmFolder) remove() {
	if n.folder != "" {
		_ = os.RemoveAll(n.folder) // a temporary folder
	}
}

// script is a program of such a folder that is running.
type script struct {
	in  io.WriteCloser
	out *bufio.Reader
	err bytes.Buffer
}

// run starts a script, which is killed with the test at the latest.
func (n *npmFolder) run(t *testing.T, name string, args ...string) *script {
	t.Helper()
	s := &script{}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(n.install(t), name)}, args...)...)
	cmd.Dir, cmd.Stderr = n.folder, &s.err
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
	s.out = bufio.NewReader(out)
	t.Cleanup(func() { _ = cmd.Wait() }) // killed: the context of a test ends before
	return s
}

// line is the next line that the script prints.
func (s *script) line(t *testing.T) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("script ended after %q: %v: %s", line, err, s.err.String())
	}
	return line[:len(line)-1]
}

// says checks the next lines that the script prints.
func (s *script) says(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := s.line(t); got != w {
			t.Fatalf("script printed %q, want %q", got, w)
		}
	}
}

// goOn gives the script a line.
func (s *script) goOn(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		t.Fatalf("script takes nothing more: %v: %s", err, s.err.String())
	}
}
