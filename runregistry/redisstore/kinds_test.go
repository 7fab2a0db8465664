package redisstore_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

// keepsPromises runs everything that needs no bubble against servers that hold
// data, with options that find them. Its tests mostly wait, so that the kinds
// are tested side by side, each on servers of its own.
func keepsPromises(t *testing.T, servers []*testkit.Redis, o redisstore.Options) {
	t.Helper()
	p := &probe{t: t}
	for _, r := range servers {
		c := r.Client()
		t.Cleanup(func() { _ = c.Close() })
		p.clients = append(p.clients, c)
	}
	storetest.Run(t, func(t *testing.T) runregistry.Store {
		p.t = t
		p.flush()
		return open(t, o)
	})
	storetest.RunShared(t, func(t *testing.T) *storetest.Server { return server(t, p, o) })
}

func TestPromisesHoldOnOneServer(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t)
	keepsPromises(t, []*testkit.Redis{r}, redisstore.Options{Addrs: []string{r.Addr()}})
}

func TestPromisesHoldBehindSentinel(t *testing.T) {
	t.Parallel()
	s := testkit.StartRedisSentinel(t)
	keepsPromises(t, []*testkit.Redis{s.Master}, redisstore.Options{Addrs: s.Addrs(), Sentinel: "mymaster", Wait: 1})
}

func TestPromisesHoldInCluster(t *testing.T) {
	t.Parallel()
	c := testkit.StartRedisCluster(t)
	keepsPromises(t, c.Masters, redisstore.Options{Addrs: c.Addrs()})
}

// documentedUser finds the ACL line that operators are told to use.
func documentedUser(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^user agent-runs .*$`).Find(text)
	if !bytes.Contains(line, []byte("<password>")) {
		t.Fatalf("docs/redis.md: got %q, want the line of the ACL user with its <password>", line)
	}
	return strings.ReplaceAll(string(line), "<password>", "secret")
}

func TestPromisesHoldForTheDocumentedUser(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t, documentedUser(t))
	user := func() (string, string, error) { return "agent-runs", "secret", nil }
	keepsPromises(t, []*testkit.Redis{r}, redisstore.Options{Addrs: []string{r.Addr()}, Credentials: user})
	limited := redis.NewClient(&redis.Options{Addr: r.Addr(), Username: "agent-runs", Password: "secret"})
	defer func() { _ = limited.Close() }()
	for _, cmd := range [][]any{{"FLUSHALL"}, {"KEYS", "*"}, {"CONFIG", "SET", "maxmemory", "1"}, {"SET", "other", "1"}} {
		if err := limited.Do(t.Context(), cmd...).Err(); err == nil {
			t.Errorf("%v: got it done, want it denied", cmd)
		}
	}
}

func TestPromisesHoldInClusterForTheDocumentedUser(t *testing.T) {
	t.Parallel()
	c := testkit.StartRedisCluster(t, documentedUser(t))
	user := func() (string, string, error) { return "agent-runs", "secret", nil }
	keepsPromises(t, c.Masters, redisstore.Options{Addrs: c.Addrs(), Credentials: user})
}
