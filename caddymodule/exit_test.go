package caddymodule

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a Caddy of its own, for what happens when it ends.
type process struct {
	*gateway
	cmd    *exec.Cmd
	output *safeBuffer
	ended  chan error
}

// safeBuffer is written by a process and read by a test.
type safeBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// runProcess starts this test binary as caddy and waits until it listens.
func runProcess(t *testing.T, global, site string) *process {
	t.Helper()
	p := &process{gateway: newGateway(t), output: new(safeBuffer), ended: make(chan error, 1)}
	p.global = global
	file := filepath.Join(p.dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(p.processCaddyfile(site)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], "run", "--config", file, "--adapter", "caddyfile")
	p.cmd.Env = append(os.Environ(), asCaddy+"=yes", "XDG_DATA_HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, as a rule
		if t.Failed() {
			t.Logf("process:\n%s", p.output)
		}
	})
	go func() { p.ended <- p.cmd.Wait() }()
	eventually(t, "process listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", p.socket())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return p
}

// processCaddyfile logs to standard error and has an admin endpoint on a
// socket.
func (p *process) processCaddyfile(site string) string {
	text := p.caddyfile(site)
	text = strings.Replace(text, "admin off", "admin unix/"+p.admin(), 1)
	from, to := strings.Index(text, "\tlog {"), strings.Index(text, "\tservers {")
	return text[:from] + text[to:]
}

func (p *process) admin() string { return filepath.Join(p.dir, "a") }

// reload gives the process another site.
func (p *process) reload(site string) {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.admin())
		},
	}}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://127.0.0.1/load", strings.NewReader(p.processCaddyfile(site)))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/caddyfile")
	resp, err := client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("reload: got %d, want 200", resp.StatusCode)
	}
}

// terminate asks the process to end, as a supervisor does.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns how long the process took to end, which it must do well.
func (p *process) wait() time.Duration {
	p.t.Helper()
	began := time.Now()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("end of the process: got %v, want success", err)
		}
	case <-time.After(patience):
		p.t.Fatalf("end of the process: not within %v", patience)
	}
	return time.Since(began)
}

// TestStopLetsRunsFinish: readers are told to come back at once, and the run
// goes on until it ends.
func TestStopLetsRunsFinish(t *testing.T) {
	u := newUpstream(t)
	p := runProcess(t, "agent_runs {\nshutdown finish 10m\n}", u.proxied("agent_runs"))
	origin := p.start()
	c := u.next()
	c.frames <- token("one")
	origin.next()
	viewer := p.stream(p.request(http.MethodGet, "/_runs/"+origin.run()+"/events", ""))
	viewer.next()
	p.terminate()
	viewer.rest() // a clean end: it may come back
	for range origin.blocks {
		t.Error("answer of a draining gateway: got one more frame, want none")
	}
	if origin.err == nil {
		t.Error("answer that was cut short: got a clean end, want an aborted transport, which no SDK takes for success")
	}
	select {
	case <-c.gone:
		t.Fatal("backend: the gateway left, want it to let the run end")
	case err := <-p.ended:
		t.Fatalf("process: ended (%v) while a run was under way", err)
	default:
	}
	c.finish()
	p.wait()
	if log := p.output.String(); !strings.Contains(log, `"state":"completed"`) {
		t.Errorf("log of the end: got\n%s\nwant a run that completed", log)
	}
}

// TestStopGivesUpAfterItsTime: the rest is settled as uncertain, and upstream
// is closed.
func TestStopGivesUpAfterItsTime(t *testing.T) {
	for name, global := range map[string]string{
		"release":      "agent_runs {\nshutdown release\n}",
		"finish 200ms": "agent_runs {\nshutdown finish 200ms\n}",
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t)
			p := runProcess(t, global, u.proxied("agent_runs"))
			origin := p.start()
			c := u.next()
			c.frames <- token("one")
			origin.next()
			p.terminate()
			p.wait()
			<-c.gone
			if log := p.output.String(); !strings.Contains(log, `"state":"uncertain","state_reason":"gateway_stopped"`) {
				t.Errorf("log of the end: got\n%s\nwant an uncertain run", log)
			}
		})
	}
}

// TestStopAfterTheDirectiveWasRemoved: nobody in the configuration knows the
// run any more, and its readers must not hold the process.
func TestStopAfterTheDirectiveWasRemoved(t *testing.T) {
	u := newUpstream(t)
	p := runProcess(t, "agent_runs {\nshutdown finish 200ms\n}", u.proxied("agent_runs"))
	origin := p.start()
	c := u.next()
	c.frames <- token("one")
	origin.next()
	p.global = ""
	p.reload(u.proxied(""))
	c.frames <- token("two")
	if got, want := origin.next(), token("two"); got != want {
		t.Errorf("after the directive was removed: got %q, want %q", got, want)
	}
	p.terminate()
	p.wait()
	<-c.gone
}
