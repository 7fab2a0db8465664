package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Gateway is the program under test as a process of its own.
type Gateway struct {
	Log *Log

	folder string // the process's home
	admin  string // path of the admin socket
	ports  map[string]int
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
	exit   error         // valid once exited is closed
	// crashed tells that its end was meant.
	crashed atomic.Bool
}

// Start runs a gateway until the test ends and fails the test if it raced,
// panicked or died.
func Start(t testing.TB, s Setup) *Gateway {
	t.Helper()
	g, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.Log.Tail(60))
		}
	})
	return g
}

// Open runs a gateway that outlives one test; the caller closes it. Ports that
// another process took in between are chosen anew.
func Open(s Setup) (*Gateway, error) {
	for range 5 {
		ports := map[string]int{}
		for name := range s.Sites {
			port, err := FreePort()
			if err != nil {
				return nil, err
			}
			ports[name] = port
		}
		g, err := launch(s.Plain, ports, func(g *Gateway) ([]string, error) {
			path := filepath.Join(g.folder, "Caddyfile")
			text := s.render("unix/"+g.admin, ports)
			return []string{"run", "--config", path, "--adapter", "caddyfile"}, os.WriteFile(path, []byte(text), 0o600)
		})
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			return g, err
		}
	}
	return nil, errors.New("starting the gateway: every port was taken")
}

// Command runs the program with a subcommand instead of a configuration.
// "{port}" in an argument becomes a free port, which [Gateway.URL] calls "".
func Command(t testing.TB, args ...string) *Gateway {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	g, err := launch(false, map[string]int{"": port}, func(*Gateway) ([]string, error) {
		out := make([]string, len(args))
		for i, a := range args {
			out[i] = strings.ReplaceAll(a, "{port}", strconv.Itoa(port))
		}
		return out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// launch starts the process and waits until it serves or is gone.
func launch(plain bool, ports map[string]int, arguments func(*Gateway) ([]string, error)) (*Gateway, error) {
	program, err := binary(plain)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "gw")
	if err != nil {
		return nil, err
	}
	g := &Gateway{Log: newLog(), folder: folder, admin: filepath.Join(folder, "admin.sock"), ports: ports, exited: make(chan struct{})}
	args, err := arguments(g)
	if err != nil {
		return nil, err
	}
	g.cmd = exec.Command(program, args...)
	g.cmd.Dir = folder
	g.cmd.SysProcAttr = notOrphaned()
	g.cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder, "STATE_DIRECTORY="+folder)
	g.cmd.Stdout, g.cmd.Stderr = g.Log, g.Log
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the gateway: %w", err)
	}
	go g.wait()
	if err := g.ready(); err != nil {
		_ = g.Close() // why it is not ready says more
		return nil, err
	}
	return g, nil
}

func (g *Gateway) wait() {
	g.exit = g.cmd.Wait()
	close(g.exited)
}

// ready waits for the line by which Caddy says that it serves.
func (g *Gateway) ready() error {
	select {
	case <-g.Log.seen("serving initial configuration", "The demo is ready", "Durable agent runs at"):
		return nil
	case <-g.exited:
		return fmt.Errorf("the gateway ended before it served: %w\n%s", g.exit, g.Log.Tail(30))
	case <-time.After(Patience):
		return fmt.Errorf("the gateway did not serve within %v\n%s", Patience, g.Log.Tail(30))
	}
}

// URL is the base address of a site.
func (g *Gateway) URL(site string) string { return fmt.Sprintf("http://127.0.0.1:%d", g.ports[site]) }

// Client returns a client of a site.
func (g *Gateway) Client(site string) Client { return NewClient(g.URL(site)) }

// PID is the process id.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Signal sends a signal to the process.
func (g *Gateway) Signal(sig syscall.Signal) error { return g.cmd.Process.Signal(sig) }

// Stop asks the process to end and waits until it has.
func (g *Gateway) Stop() error {
	if err := g.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-g.exited:
		if g.crashed.Load() {
			return nil
		}
		return g.exit
	case <-time.After(Patience):
		g.Kill()
		return errors.New("the gateway did not end after SIGTERM")
	}
}

// Kill ends the process at once.
func (g *Gateway) Kill() {
	_ = g.cmd.Process.Kill() // gone already is as good
	<-g.exited
}

// Close ends the process, removes its files and reports what went wrong in it.
func (g *Gateway) Close() error {
	err := g.Stop()
	if fault := g.Log.Fault(); fault != "" {
		err = errors.Join(err, errors.New("the gateway's log has a fault:\n"+fault))
	}
	return errors.Join(err, os.RemoveAll(g.folder))
}

// Admin asks the admin interface: GET without a body, else POST.
func (g *Gateway) Admin(path string, header http.Header, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.admin)
		},
	}}
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("admin answered %d: %s", resp.StatusCode, out)
	}
	return out, err
}

// Reload replaces the configuration; the sites keep their ports. An equal
// configuration is loaded all the same.
func (g *Gateway) Reload(s Setup) error {
	text := s.render("unix/"+g.admin, g.ports)
	var err error
	for range 3 {
		_, err = g.Admin("/load", http.Header{
			"Content-Type":  {"text/caddyfile"},
			"Cache-Control": {"must-revalidate"},
		}, []byte(text))
		// The admin endpoint is replaced with every load, and a connection that
		// still reaches the old one is closed unanswered.
		if !errors.Is(err, io.EOF) {
			break
		}
	}
	return err
}
