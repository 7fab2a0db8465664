package demo

import (
	"os"
	"os/exec"
	"testing"
)

// The page's own modules are tested by Node's test runner, without any package
// from a registry.
func TestModulesOfThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("looking for node: %v", err)
		}
		t.Skip("node is not installed; CI has it")
	}
	out, err := exec.CommandContext(t.Context(), node, "--test", "web_test/").CombinedOutput()
	if err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
