package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// probeT is a test that may fail without failing its own test.
type probeT struct {
	testing.TB
	failed, skipped bool
	text            string
}

func (p *probeT) Helper() {}

func (p *probeT) Fatalf(format string, args ...any) {
	p.failed, p.text = true, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (p *probeT) Skipf(format string, args ...any) {
	p.skipped, p.text = true, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run calls f where a failure ends only f.
func (p *probeT) run(f func()) {
	var done sync.WaitGroup
	done.Go(f)
	done.Wait()
}

func TestAMissingComponentSkipsHereAndFailsInCI(t *testing.T) {
	for ci, want := range map[string]bool{"true": true, "": false} {
		t.Setenv("CI", ci)
		probe := &probeT{TB: t}
		probe.run(func() { RequireProgram(probe, "no-such-program") })
		if probe.failed != want || probe.skipped == want {
			t.Errorf("with CI=%q failed = %v and skipped = %v, want %v and %v", ci, probe.failed, probe.skipped, want, !want)
		}
	}
	if _, err := exec.LookPath("go"); err == nil {
		if path := RequireProgram(t, "no-such-program", "go"); !strings.HasSuffix(path, "go") {
			t.Errorf("got %q, want the second name's program", path)
		}
	}
}

func TestALogShowsTheFirstFault(t *testing.T) {
	l := newLog()
	ready := l.seen("serving")
	fmt.Fprint(l, "a\nnow serv")
	select {
	case <-ready:
		t.Error("half a line counts as seen")
	default:
	}
	fmt.Fprint(l, "ing\n")
	<-ready
	if got := l.Fault(); got != "" {
		t.Errorf("got fault %q, want none", got)
	}
	fmt.Fprint(l, "WARNING: DATA RACE\nb\n")
	if got, want := l.Fault(), "WARNING: DATA RACE\nb"; got != want {
		t.Errorf("got fault %q, want %q", got, want)
	}
}

func TestTheFixturesAreWhereTheEnvironmentSays(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/README.md", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENT_RUNS_FIXTURES", folder)
	if got := RequireFixtures(t); got != folder {
		t.Errorf("got %q, want %q", got, folder)
	}
}
