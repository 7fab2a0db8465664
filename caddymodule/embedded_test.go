package caddymodule

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// stop ends the gateway as a restart does.
func (g *gateway) stop() {
	g.t.Helper()
	if err := caddy.Stop(); err != nil {
		g.t.Fatalf("stopping: got %v, want no error", err)
	}
	engines.Close()
}

// TestRunsSurviveARestart: by default, and where `path` says.
func TestRunsSurviveARestart(t *testing.T) {
	for name, option := range map[string]string{
		"default": "",
		"path":    "agent_runs {\nstore embedded {\npath {env.AGENT_RUNS_STATE}/runs\n}\n}",
	} {
		t.Run(name, func(t *testing.T) {
			g, u := newGateway(t), newUpstream(t)
			state := filepath.Join(g.dir, "state")
			t.Setenv("AGENT_RUNS_STATE", state)
			g.global = option
			g.load(u.proxied("agent_runs"))
			reader := g.start()
			u.next().finish()
			reader.rest()
			eventually(t, "the run settles", func() bool {
				_, body := g.get("/_runs/" + reader.run())
				return strings.Contains(body, `"state":"completed"`)
			})
			g.stop()
			dir := filepath.Join(caddy.AppDataDir(), "agent_runs")
			if option != "" {
				dir = filepath.Join(state, "runs")
			}
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("directory: got %v, want it at %s", err, dir)
			}
			g.load(u.proxied("agent_runs"))
			if resp, body := g.get("/_runs/" + reader.run()); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"state":"completed"`) {
				t.Errorf("run after a restart: got %d %s, want it completed", resp.StatusCode, body)
			}
		})
	}
}

// TestMemoryWritesNothing: that is what it is for.
func TestMemoryWritesNothing(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.global = "agent_runs {\nstore memory\n}"
	g.load(u.proxied("agent_runs"))
	reader := g.start()
	u.next().finish()
	reader.rest()
	if _, err := os.Stat(filepath.Join(caddy.AppDataDir(), "agent_runs")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory: got %v, want none", err)
	}
}

// TestValidateDoesNotTouchTheDirectory: another process may have it.
func TestValidateDoesNotTouchTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	config, err := adapt("{\nagent_runs {\nstore embedded {\npath " + dir + "\n}\n}\n}\n:80 {\nagent_runs\nreverse_proxy localhost:1\n}")
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, config); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory after validate: got %v, want none", err)
	}
}

// TestAPathWithoutAValueIsRefused: it would be another directory than the one
// that was meant.
func TestAPathWithoutAValueIsRefused(t *testing.T) {
	g, u := newGateway(t), newUpstream(t)
	g.global = "agent_runs {\nstore embedded {\npath {env.AGENT_RUNS_NOT_SET}/runs\n}\n}"
	if err := g.tryLoad(u.proxied("agent_runs")); err == nil || !strings.Contains(err.Error(), "{env.AGENT_RUNS_NOT_SET} is empty or unknown") {
		t.Errorf("loading: got %v, want it refused by name", err)
	}
}
