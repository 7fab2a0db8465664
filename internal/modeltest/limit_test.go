package modeltest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
)

// TestParallelStartsOnTwoGatewaysKeepTheLimit: whoever asks 50 times at once, at
// two gateways that share a store, has as many runs as the limit says, and the
// others are told so.
func TestParallelStartsOnTwoGatewaysKeepTheLimit(t *testing.T) {
	const starts, limit = 50, 3
	synctest.Test(t, func(t *testing.T) {
		redis := testkit.StartBubbleRedis(t)
		var calls, over atomic.Int64
		finish := make(chan struct{})
		next := func(w http.ResponseWriter, r *http.Request) error {
			if calls.Add(1) > limit {
				over.Add(1)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := fmt.Fprint(w, "data: 1\n\n")
			select {
			case <-finish:
			case <-r.Context().Done():
			}
			return err
		}
		clients := []testkit.Client{limited(t, redis, limit, next), limited(t, redis, limit, next)}
		var wait sync.WaitGroup
		answers := make([]*testkit.Answer, starts)
		for i := range starts {
			wait.Go(func() {
				answers[i], _ = clients[i%2].As("alice").Try(t, testkit.Chat(fmt.Sprintf("conv-%d", i), "hello").At("/generate")) // nil is not 200
			})
		}
		wait.Wait()
		got := make(map[int]int)
		for _, a := range answers {
			if a != nil {
				got[a.Status]++
			}
		}
		if got[http.StatusOK] != limit || got[http.StatusTooManyRequests] != starts-limit || over.Load() != 0 {
			t.Errorf("got %v and %d calls of the backend, want %d runs and 429 for the others", got, calls.Load(), limit)
		}
		close(finish)
		synctest.Wait()
		clients[1].As("alice").Do(t, testkit.Chat("conv-last", "hello").At("/generate")).Want(http.StatusOK)
	})
}

// limited is a gateway with a limit.
func limited(t *testing.T, redis *testkit.BubbleRedis, limit int, next proxy.Next) testkit.Client {
	t.Helper()
	l := newLink(redis)
	store, err := openStore(l)
	if err != nil {
		t.Fatal(err)
	}
	metrics := proxy.NewMetrics()
	i := &instance{link: l, store: &freezing{Store: store, link: l}, engine: proxy.NewEngine(store, quiet, metrics)}
	i.engine.Share(proxy.DefaultSharing())
	cfg := proxy.DefaultConfig()
	cfg.Starts, cfg.Dialect, cfg.Limits.ActiveRunsPerSubject = []proxy.StartPattern{{Method: http.MethodPost, Path: "/generate"}}, "generic", limit
	h, err := proxy.New(cfg, proxy.Deps{
		Engine: i.engine, Host: host{}, Log: quiet, Metrics: metrics,
		Identity: &authz.Header{Subject: testkit.SubjectHeader, Trusted: func(*http.Request) bool { return true }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.close)
	return testkit.ServePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.ServeHTTP(w, r, next); err != nil {
			t.Errorf("serving: %v", err)
		}
	}))
}
