package redisstore

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A server that evicts keys throws claims away, and a request may be paid twice.
func TestServerThatMayEvictIsToldOf(t *testing.T) {
	for name, tt := range map[string]struct{ setting, want string }{
		"none":         {"maxmemory-policy noeviction", ""},
		"evicts":       {"maxmemory-policy allkeys-lru", "set maxmemory-policy to noeviction"},
		"says nothing": {"rename-command CONFIG \"\"", "cannot read maxmemory-policy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := testkit.StartRedis(t, tt.setting)
			var out lines
			s, err := Open(Options{Addrs: []string{r.Addr()}, Log: slog.New(slog.NewTextHandler(&out, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 3 {
				_, _ = s.Load(t.Context(), runregistry.NewRunID(1)) // there is none
			}
			told := strings.Join(out.all(), "\n")
			if n := strings.Count(told, "maxmemory-policy"); tt.want == "" && n > 0 || tt.want != "" && strings.Count(told, tt.want) != 1 {
				t.Errorf("got the log %q, want %q once", told, tt.want)
			}
		})
	}
}
