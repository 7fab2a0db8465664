package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestRedisAddressesResolveTheirPlaceholders, and a password may have any
// bytes.
func TestRedisAddressesResolveTheirPlaceholders(t *testing.T) {
	t.Setenv("AGENT_RUNS_USER", "us er")
	t.Setenv("AGENT_RUNS_PASSWORD", "p@ss/w:rd+%41{x}")
	t.Setenv("AGENT_RUNS_HOST", "redis.example.com:6380")
	t.Setenv("AGENT_RUNS_PREFIX", "blue:")
	t.Setenv("AGENT_RUNS_URL", "redis://:plain@h:1/2")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, addr, user, password string
		db                        int
	}{
		{"rediss://{env.AGENT_RUNS_USER}:{env.AGENT_RUNS_PASSWORD}@{env.AGENT_RUNS_HOST}/7", "redis.example.com:6380", "us er", "p@ss/w:rd+%41{x}", 7},
		{"redis://:{file." + file + "}@h", "h:6379", "", "from a file", 0},
		{"{env.AGENT_RUNS_URL}", "h:1", "", "plain", 2},
		{"redis://h:1", "h:1", "", "", 0},
	} {
		r := Redis{URLs: []string{c.url}, KeyPrefix: "{env.AGENT_RUNS_PREFIX}"}
		if err := r.check(); err != nil {
			t.Errorf("%s: checking: got %v, want no error", c.url, err)
		}
		if err := r.resolve(); err != nil {
			t.Errorf("%s: got %v, want no error", c.url, err)
			continue
		}
		user, password, err := r.opts.Credentials.Ask()
		if err != nil || user != c.user || password != c.password || r.opts.Addrs[0] != c.addr || r.opts.DB != c.db {
			t.Errorf("%s: got %s/%d as %q with %q (%v), want %s/%d as %q with %q",
				c.url, r.opts.Addrs[0], r.opts.DB, user, password, err, c.addr, c.db, c.user, c.password)
		}
		if r.opts.KeyPrefix != "blue:" || !strings.Contains(r.URLs[0]+r.KeyPrefix, "{") && c.url != "redis://h:1" {
			t.Errorf("%s: got prefix %q and configuration %v, want the first resolved and the other as it was", c.url, r.opts.KeyPrefix, r.URLs)
		}
	}
}

// TestRedisMistakesThatShowWhenLoaded name the option and no password.
func TestRedisMistakesThatShowWhenLoaded(t *testing.T) {
	t.Setenv("AGENT_RUNS_PASSWORD", "hunter2")
	t.Setenv("AGENT_RUNS_URL", "http://:hunter2@h")
	t.Setenv("AGENT_RUNS_PREFIX", "a{b}")
	missing := filepath.Join(t.TempDir(), "ca.pem")
	for want, r := range map[string]Redis{
		"{env.AGENT_RUNS_NOT_SET} is empty or unknown": {URLs: []string{"redis://:{env.AGENT_RUNS_NOT_SET}@h"}},
		"the scheme must be redis or rediss":           {URLs: []string{"{env.AGENT_RUNS_URL}"}},
		"key prefix":                                   {URLs: []string{"redis://:{env.AGENT_RUNS_PASSWORD}@h"}, KeyPrefix: "{env.AGENT_RUNS_PREFIX}"},
		"reading CA":                                   {URLs: []string{"rediss://:{env.AGENT_RUNS_PASSWORD}@h"}, TLS: RedisTLS{CA: missing}},
		"reading client certificate":                   {URLs: []string{"rediss://h"}, TLS: RedisTLS{Certificate: missing, Key: missing}},
	} {
		if err := r.check(); err != nil {
			t.Errorf("checking %v: got %v, want no error before it is loaded", r.URLs, err)
		}
		err := r.resolve()
		if err == nil || !strings.HasPrefix(err.Error(), "store: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("loading %v: got %v, want an error of store with %q", r.URLs, err, want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("loading %v: got %v, want an error without the password", r.URLs, err)
		}
	}
}

// TestOneRedisIsOneStore, however its configuration is written.
func TestOneRedisIsOneStore(t *testing.T) {
	key := func(change func(*Redis)) storeKey {
		s := Store{Kind: storeRedis, Redis: Redis{URLs: []string{"redis://:secret@a:1", "redis://:secret@b:2"}}}
		change(&s.Redis)
		if err := s.resolve(); err != nil {
			t.Fatal(err)
		}
		return s.key()
	}
	first := key(func(*Redis) {})
	for name, change := range map[string]func(*Redis){
		"another order":     func(r *Redis) { r.URLs = []string{r.URLs[1], r.URLs[0]} },
		"another password":  func(r *Redis) { r.URLs = []string{"redis://:x@a:1", "redis://:x@b:2"} },
		"another pool":      func(r *Redis) { r.PoolSize = 3 },
		"the default named": func(r *Redis) { r.KeyPrefix = "ag:" },
	} {
		if got := key(change); got != first {
			t.Errorf("%s: got store %s, want %s", name, got, first)
		}
	}
	for name, change := range map[string]func(*Redis){
		"another address":  func(r *Redis) { r.URLs = []string{"redis://:secret@a:1", "redis://:secret@b:3"} },
		"another prefix":   func(r *Redis) { r.KeyPrefix = "x:" },
		"another database": func(r *Redis) { r.URLs = []string{"redis://a:1/2"} },
		"a Sentinel":       func(r *Redis) { r.Sentinel = "m" },
	} {
		if got := key(change); got == first {
			t.Errorf("%s: got store %s again, want another", name, got)
		}
	}
	if text := first.String(); strings.Contains(text, "secret") || !strings.Contains(text, "redis a:1,b:2") {
		t.Errorf("in words: got %q, want the addresses and no password", text)
	}
}

// TestValidatingConnectsToNothing. (Promise 2.)
func TestValidatingConnectsToNothing(t *testing.T) {
	l := testkit.Listen(t)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if conn, err := l.Accept(); err == nil {
			t.Error("a connection came, want none")
			_ = conn.Close()
		}
	}()
	config, err := adapt("{\n" + inRedis("redis://"+l.Addr().String()) + "\n}\n:80 {\nagent_runs\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, config); err != nil {
		t.Errorf("validating: got %v, want no error", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-asked
}
