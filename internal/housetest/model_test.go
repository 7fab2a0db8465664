package housetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// leaseModel is the model of lease, fence and settle.
const leaseModel = "docs/model/lease.pml"

// checker builds what checks the model, in a folder of its own. With a define
// the model lacks something.
func checker(t *testing.T, defines ...string) string {
	t.Helper()
	testkit.RequireProgram(t, "spin")
	testkit.RequireProgram(t, "gcc")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "lease.pml"), []byte(read(t, leaseModel)), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, folder, "spin", append(defines, "-a", "lease.pml")...)
	command(t, folder, "gcc", "-w", "-O2", "-DCOLLAPSE", "-DNFAIR=3", "-o", "pan", "pan.c")
	return folder
}

// command runs a command that must succeed and returns what it said.
func command(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestModelOfTheLeaseHolds lets spin look at every order of its steps.
func TestModelOfTheLeaseHolds(t *testing.T) {
	folder := checker(t)
	for _, args := range [][]string{{"-a", "-N", "forever"}, {"-a", "-f", "-N", "buried"}} {
		said := command(t, folder, "./pan", append(args, "-m400000")...)
		if !strings.Contains(said, "errors: 0") || strings.Contains(said, "Search not completed") || strings.Contains(said, "max search depth") {
			t.Errorf("%v: got\n%s", args, said)
		}
	}
}

// TestModelNeedsEachOfItsChecks: a model that finds nothing wrong with a store
// that compares nothing would show nothing.
func TestModelNeedsEachOfItsChecks(t *testing.T) {
	for define, want := range map[string]string{
		"-DNOFENCE": "e==epoch",
		"-DNOTRUST": "state!=",
		"-DNOLEASE": "trust==0",
	} {
		said := command(t, checker(t, define), "./pan", "-m400000", "-a", "-N", "forever")
		if !strings.Contains(said, "assertion violated") || !strings.Contains(said, want) {
			t.Errorf("%s: got no counterexample to %s:\n%s", define, want, said)
		}
	}
}
