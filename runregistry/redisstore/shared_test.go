package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/storetest"
)

// probe is the test's own look at one or several servers.
type probe struct {
	t       *testing.T
	clients []*redis.Client
}

// each runs f on every server.
func (p *probe) each(f func(ctx context.Context, c *redis.Client) error) {
	p.t.Helper()
	for _, c := range p.clients {
		if err := f(p.t.Context(), c); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *probe) flush() {
	p.t.Helper()
	p.each(func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// loseTail rolls the log of a run back.
func (p *probe) loseTail(id runregistry.RunID, last runregistry.Seq) {
	p.t.Helper()
	p.each(func(ctx context.Context, c *redis.Client) error {
		key := fmt.Sprintf("ag:{p%02d}:r:%s", id.Partition(), id)
		log := fmt.Sprintf("ag:{p%02d}:f:%s", id.Partition(), id)
		switch n, err := c.Exists(ctx, key).Result(); {
		case err != nil && strings.HasPrefix(err.Error(), "MOVED "):
			return nil // it is on another server
		case n == 0 || err != nil:
			return err
		}
		frames, err := c.XRange(ctx, log, fmt.Sprintf("(0-%d", last), "+").Result()
		if err != nil {
			return err
		}
		for _, f := range frames {
			if err := c.XDel(ctx, log, f.ID).Err(); err != nil {
				return err
			}
		}
		// Redis remembers the last id of a stream; a failover would not.
		left, err := c.XRange(ctx, log, "-", "+").Result()
		if err != nil {
			return err
		}
		c.Del(ctx, log)
		for _, f := range left {
			if err := c.XAdd(ctx, &redis.XAddArgs{Stream: log, ID: f.ID, Values: []any{"a", f.Values["a"], "d", f.Values["d"]}}).Err(); err != nil {
				return err
			}
		}
		c.PExpire(ctx, log, time.Hour)
		return c.HSet(ctx, key, "q", uint64(last), "g", uint64(last)).Err()
	})
}

// deadlines of all keys; -1 stands for ever.
func (p *probe) deadlines() map[string]time.Duration {
	p.t.Helper()
	all := make(map[string]time.Duration)
	p.each(func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			ttl, err := c.PTTL(ctx, key).Result()
			if err != nil {
				return err
			}
			if ttl != -2 { // gone meanwhile
				all[key] = ttl
			}
		}
		return nil
	})
	return all
}

// server makes instances with the options.
func server(t *testing.T, p *probe, o redisstore.Options) *storetest.Server {
	t.Helper()
	p.t = t
	p.flush()
	return &storetest.Server{
		Open:     func(t *testing.T) runregistry.Store { return open(t, o) },
		Lose:     p.flush,
		LoseTail: p.loseTail, Deadlines: p.deadlines,
	}
}

func TestInstancesKeepTheirPromisesInBubbles(t *testing.T) {
	storetest.RunSharedTimed(t, func(t *testing.T) *storetest.Server {
		r := testkit.StartBubbleRedis(t)
		c := redis.NewClient(&redis.Options{Addr: testkit.BubbleAddr, Dialer: r.Dial})
		t.Cleanup(func() { _ = c.Close() })
		return server(t, &probe{clients: []*redis.Client{c}}, bubbleOptions(r))
	})
}
