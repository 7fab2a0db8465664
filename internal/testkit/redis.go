package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server of its own on a loopback port. It keeps nothing on
// disk unless its settings say so.
type Redis struct {
	t      testing.TB
	dir    string
	args   []string
	kind   []string // further arguments of a Sentinel
	exited chan struct{}

	mu      sync.Mutex // guards everything below
	process *os.Process

	Port int
	// Password is that of the default user, if the settings have one.
	Password string
}

// StartRedis starts a server and waits until it answers. Settings are lines of
// redis.conf. The server ends with the test.
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r := newRedis(t, settings...)
	t.Cleanup(r.Kill)
	r.Start()
	return r
}

func newRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	RequireProgram(t, "redis-server")
	r := &Redis{t: t, dir: t.TempDir(), Port: RedisPort(t)}
	r.configure(append([]string{
		"bind 127.0.0.1", fmt.Sprint("port ", r.Port), "save \"\"", "appendonly no", "protected-mode no",
		"dir " + r.dir, "loglevel warning", "logfile " + filepath.Join(r.dir, "log"),
	}, settings...))
	return r
}

func (r *Redis) configure(lines []string) {
	r.t.Helper()
	file := filepath.Join(r.dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.args = append([]string{file}, r.kind...)
}

// RedisPort returns a loopback port that nobody listens on. Ports are drawn
// below those that the system hands out by itself, so that no client takes one
// meanwhile.
func RedisPort(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := nextPort()
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		if l.Close() == nil {
			return port
		}
	}
	t.Fatal("found no free port")
	return 0
}

var ports struct {
	sync.Mutex
	next int
}

// nextPort is below 22000: a Cluster also listens 10000 above it.
func nextPort() int {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = 11000 + os.Getpid()*37%9000
	}
	if ports.next++; ports.next >= 21000 {
		ports.next = 11000
	}
	return ports.next
}

// Start starts the server, again after a Kill.
func (r *Redis) Start() {
	r.t.Helper()
	r.launch()
	r.answers("redis-server", func(err error) bool { return err == nil || strings.HasPrefix(err.Error(), "NOAUTH") })
}

// launch starts the process.
func (r *Redis) launch(settings ...string) {
	r.t.Helper()
	cmd := exec.Command("redis-server", append(slices.Clone(r.args), settings...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatalf("starting redis-server: %v", err)
	}
	exited := make(chan struct{})
	r.mu.Lock()
	r.process, r.exited = cmd.Process, exited
	r.mu.Unlock()
	go func() {
		defer close(exited)
		_ = cmd.Wait() // it ends by a signal
	}()
}

// answers waits until the server answers a PING as it should.
func (r *Redis) answers(what string, ok func(err error) bool) {
	r.t.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	Eventually(r.t, what, func() bool {
		select {
		case <-r.exited:
			log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
			r.t.Fatalf("redis-server ended at once: %s", log)
		default:
		}
		return ok(c.Ping(context.Background()).Err())
	})
}

// Kill ends the server at once and waits for that.
func (r *Redis) Kill() {
	r.mu.Lock()
	process, exited := r.process, r.exited
	r.process = nil
	r.mu.Unlock()
	if process != nil {
		_ = process.Kill()
		<-exited
	}
}

// Freeze stops the server in its tracks until it is thawed.
func (r *Redis) Freeze() { r.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (r *Redis) Thaw() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(sig os.Signal) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.process.Signal(sig); err != nil {
		r.t.Fatalf("signalling redis-server: %v", err)
	}
}

// Addr is host:port.
func (r *Redis) Addr() string { return fmt.Sprint("127.0.0.1:", r.Port) }

// URL is what a gateway is configured with.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// Client returns a client for the test itself.
func (r *Redis) Client() *redis.Client {
	return redis.NewClient(r.options())
}

func (r *Redis) options() *redis.Options {
	return &redis.Options{
		Addr: r.Addr(), Password: r.Password, DialTimeout: time.Second, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	}
}

// Do runs a command that must succeed, however busy the machine is.
func (r *Redis) Do(args ...any) any {
	r.t.Helper()
	o := r.options()
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Patience, Patience, Patience
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return v
}
