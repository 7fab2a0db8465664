package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// patience bounds every wait of a test. Reaching it is a failure.
const patience = 20 * time.Second

// gateway is the Caddy of this process, on a socket of its own. There is one
// at a time: Caddy keeps its running configuration in globals.
type gateway struct {
	t      *testing.T
	dir    string
	client *http.Client
	// global and server are added to the global options and to their servers
	// block.
	global, server string
	logName        string
	running        *closing // of the configuration that is served; nil before the first
}

// newGateway prepares a gateway that stops when the test ends.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "runs") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data")) // runs of another test are none of this one's
	g := &gateway{t: t, dir: dir, logName: "log"}
	g.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.socket())
		},
	}}
	t.Cleanup(func() {
		if text, err := os.ReadFile(g.logFile()); err == nil && t.Failed() {
			t.Logf("log:\n%s", text)
		}
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping: got %v, want no error", err)
		}
		engines.Close()
		if n := poolSize(); n != 0 {
			t.Errorf("engines after the end: got %d, want none", n)
		}
		os.RemoveAll(dir)
	})
	return g
}

func (g *gateway) socket() string  { return filepath.Join(g.dir, "s") }
func (g *gateway) logFile() string { return filepath.Join(g.dir, g.logName) }

// caddyfile puts a site into a whole configuration.
func (g *gateway) caddyfile(site string) string {
	return fmt.Sprintf(`{
	admin off
	persist_config off
	storage file_system %s
	log {
		output file %s {
			roll_disabled
		}
		format json
	}
	servers {
		trusted_proxies_unix
		%s
	}
	%s
}
http://gateway.test {
	bind unix/%s
	%s
}
`, filepath.Join(g.dir, "storage"), g.logFile(), g.server, g.global, g.socket(), site)
}

// tryLoad loads a site as `caddy reload --force` does.
func (g *gateway) tryLoad(site string) error {
	g.t.Helper()
	return g.tryLoadText(g.caddyfile(site))
}

func (g *gateway) tryLoadText(caddyfile string) error {
	g.t.Helper()
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	if err := caddy.Load(withClosing(g.t, config), true); err != nil {
		return err
	}
	before := g.running
	g.running = newestClosing
	if before != nil {
		before.wait(g.t)
	}
	return nil
}

func (g *gateway) load(site string) {
	g.t.Helper()
	g.loadText(g.caddyfile(site))
}

func (g *gateway) loadText(caddyfile string) {
	g.t.Helper()
	if err := g.tryLoadText(caddyfile); err != nil {
		g.t.Fatalf("loading: got %v, want no error", err)
	}
}

// log returns what was logged so far.
func (g *gateway) log() string {
	g.t.Helper()
	text, err := os.ReadFile(g.logFile())
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// request makes a request of a script: it carries a credential, by which
// sessions tell scripts apart.
func (g *gateway) request(method, path, body string) *http.Request {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://gateway.test"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer alice")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (g *gateway) do(r *http.Request) *http.Response {
	g.t.Helper()
	resp, err := g.client.Do(r)
	if err != nil {
		g.t.Fatalf("%s %s: got %v, want an answer", r.Method, r.URL.Path, err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// fetch returns an answer with its whole body.
func (g *gateway) fetch(r *http.Request) (*http.Response, string) {
	g.t.Helper()
	resp := g.do(r)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s %s: reading: got %v, want no error", r.Method, r.URL.Path, err)
	}
	return resp, string(body)
}

func (g *gateway) get(path string) (*http.Response, string) {
	g.t.Helper()
	return g.fetch(g.request(http.MethodGet, path, ""))
}

// prompt is a generation that every configuration without a start line
// recognises.
const prompt = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

const chatPath = "/v1/chat/completions"

// start starts a run and returns its answer.
func (g *gateway) start() *stream {
	g.t.Helper()
	return g.stream(g.request(http.MethodPost, chatPath, prompt))
}

func poolSize() int {
	n := 0
	engines.usage.Range(func(_, _ any) bool { n++; return true })
	return n
}

// eventually waits for what another goroutine of Caddy does by itself.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
