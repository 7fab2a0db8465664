package demo

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// The page's own modules are tested by Node's test runner, without any package
// from a registry.
func TestModulesOfThePage(t *testing.T) {
	node := testkit.RequireProgram(t, "node")
	tests, err := filepath.Glob("web_test/*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("looking for tests: got %v, %v, want some", tests, err)
	}
	out, err := exec.CommandContext(t.Context(), node, append([]string{"--test"}, tests...)...).CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
