package redisstore_test

import (
	"log/slog"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

func open(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := redisstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// openBubble opens a store inside a bubble.
func openBubble(t *testing.T) runregistry.Store {
	r := testkit.StartBubbleRedis(t)
	return open(t, bubbleOptions(r))
}

func TestStoreKeepsItsPromisesOverTime(t *testing.T) { storetest.RunTimed(t, openBubble) }

// bubbleOptions have more connections than any test has goroutines: a client
// that waits for one does so with timers that it shares among bubbles.
func bubbleOptions(r *testkit.BubbleRedis) redisstore.Options {
	return redisstore.Options{Addrs: []string{testkit.BubbleAddr}, Dialer: r.Dial, PoolSize: 256}
}
