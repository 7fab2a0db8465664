package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestDeploymentsAreValid loads each of the examples as far as `caddy validate`
// does, and wants it to be formatted, explained and listed.
func TestDeploymentsAreValid(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("REDIS_PASSWORD", "only-a-test")
	for _, name := range []string{"JWT_SECRET", "SESSION_SECRET"} {
		t.Setenv(name, strings.Repeat("only-a-test-", 4))
	}
	names, err := filepath.Glob("../examples/*/Caddyfile")
	if err != nil || len(names) < 7 {
		t.Fatalf("got %v and %v, want all examples", names, err)
	}
	list, err := os.ReadFile("../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		folder := filepath.Base(filepath.Dir(name))
		t.Run(folder, func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(caddyfile.Format(text)); got != string(text) {
				t.Errorf("after caddy fmt: got\n%s\nwant it unchanged", got)
			}
			config, err := adapt(string(text))
			if err != nil {
				t.Fatalf("adapting: got %v, want no error", err)
			}
			if err := validate(t, config); err != nil {
				t.Errorf("validating: got %v, want no error", err)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), "README.md")); err != nil {
				t.Error(err)
			}
			if !strings.Contains(string(list), "("+folder+"/README.md)") {
				t.Errorf("examples/README.md: got no link to %s", folder)
			}
		})
	}
}
