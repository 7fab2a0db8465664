package embeddedstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// The variables that make the test binary the process that will be killed.
const (
	childDir   = "EMBEDDEDSTORE_CHILD_DIR"
	childFirst = "EMBEDDEDSTORE_CHILD_FIRST"
)

// perChild is how many stores, each of its own length, die with one process.
const perChild = 50

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		first, err := strconv.Atoi(os.Getenv(childFirst))
		if err != nil {
			panic(err)
		}
		serve(dir, first)
	}
	os.Exit(m.Run())
}

// victimRun is the id of the run in the store of length k.
func victimRun(k int) runregistry.RunID {
	return runregistry.RunID(fmt.Sprintf("run_00%026d", k))
}

func victimFrame(i int) string { return fmt.Sprintf("data: frame %d\n\n", i) }

// serve stores k frames, one by one, in a store for each k, says so as soon as
// the last of them is acknowledged, and then waits for its death.
func serve(dir string, first int) {
	var out sync.Mutex
	for k := first; k < first+perChild; k++ {
		go func() {
			err := serveOne(filepath.Join(dir, strconv.Itoa(k)), k)
			out.Lock()
			defer out.Unlock()
			fmt.Fprintln(os.Stdout, k, err)
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // for ever, unless the test dies first
	os.Exit(1)
}

func serveOne(dir string, k int) error {
	ctx := context.Background()
	s := embeddedstore.New(embeddedstore.Options{Path: dir, Memory: 1 << 20})
	a := benchAdmission(runregistry.LogLimits{})
	a.Run, a.Key = victimRun(k), runregistry.Digest{byte(k), 1}
	d, err := s.Admit(ctx, a)
	if err != nil {
		return err
	}
	if _, err := s.Intend(ctx, d.Lease); err != nil {
		return err
	}
	for i := range k {
		b := &runregistry.Batch{After: runregistry.Seq(i), Frames: [][]byte{[]byte(victimFrame(i + 1))}}
		if _, err := s.Append(ctx, d.Lease, b); err != nil {
			return err
		}
	}
	return nil
}

// victims starts a process and returns once all its stores have acknowledged
// their last frame. kill is kill -9.
func victims(t *testing.T, dir string, first int) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), childDir+"="+dir, childFirst+"="+strconv.Itoa(first))
	child.Stderr = os.Stderr
	_, noInput := child.StdinPipe()
	out, noOutput := child.StdoutPipe()
	if err := errors.Join(noInput, noOutput, child.Start()); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = child.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait() // it was killed
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	for range perChild {
		var k int
		var said string
		if !lines.Scan() {
			t.Fatalf("the process ended early: %v", lines.Err())
		}
		if _, err := fmt.Sscan(lines.Text(), &k, &said); err != nil || said != "<nil>" {
			t.Fatalf("the process says %q", lines.Text())
		}
	}
	return kill
}

// The rule that the journal was chosen by: for k = 1 to 1000 a process is killed
// with SIGKILL once frame k is acknowledged, and the next one has it.
func TestKilledAfterFrameK(t *testing.T) {
	for first := 1; first <= 1000; first += perChild {
		dir := t.TempDir()
		victims(t, dir, first)()
		var all sync.WaitGroup
		for k := first; k < first+perChild; k++ {
			all.Go(func() {
				if err := survived(t, filepath.Join(dir, strconv.Itoa(k)), k); err != nil {
					t.Errorf("killed after frame %d: %v", k, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

// survived opens what a killed process left and reports what is missing.
func survived(t *testing.T, dir string, k int) error {
	t.Helper()
	s := embeddedstore.New(embeddedstore.Options{Path: dir, Memory: 1 << 20})
	defer s.Close()
	rec, err := s.Load(t.Context(), victimRun(k))
	if err != nil {
		return err
	}
	if rec.State != runregistry.Uncertain || rec.Reason != runregistry.ReasonOwnerLost || rec.LastSeq != runregistry.Seq(k) {
		return fmt.Errorf("got a %s run (%s) of %d frames", rec.State, rec.Reason, rec.LastSeq)
	}
	q := runregistry.PageQuery{Run: rec.ID}
	for q.After < rec.LastSeq {
		p, err := s.Read(t.Context(), q)
		if err != nil {
			return err
		}
		for _, f := range p.Frames {
			if q.After++; f.Seq != q.After || string(f.Data) != victimFrame(int(f.Seq)) {
				return fmt.Errorf("got frame %d %q, want %d", f.Seq, f.Data, q.After)
			}
		}
	}
	return nil
}

// The system gives the directory of a process that was killed to the next.
func TestAnotherProcessHasTheDirectoryUntilItDies(t *testing.T) {
	dir := t.TempDir()
	kill := victims(t, dir, 1)
	s := openWith(t, embeddedstore.Options{Path: filepath.Join(dir, "7"), Memory: 1 << 20})
	if _, err := s.Load(t.Context(), victimRun(7)); !errors.Is(err, runregistry.ErrUnavailable) {
		t.Fatalf("got error %v while another process has the directory, want %v", err, runregistry.ErrUnavailable)
	}
	s.Close()
	kill()
	s = openWith(t, embeddedstore.Options{Path: filepath.Join(dir, "7"), Memory: 1 << 20})
	if rec, err := s.Load(t.Context(), victimRun(7)); err != nil || rec.LastSeq != 7 {
		t.Errorf("got error %v once it is dead, want the run of 7 frames", err)
	}
}
