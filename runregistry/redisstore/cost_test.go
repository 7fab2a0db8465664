package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Operators size their servers by the formula of docs/redis.md: 8 kB and, for
// each frame, 1.3 times its bytes and 20 more.
func TestRetainedRunsFitTheDocumentedMemory(t *testing.T) {
	s := newSite(t)
	for _, frames := range []int{0, 10, 100, 800} {
		for _, size := range []int{20, 100, 1000, 5000} {
			s.redis.Do("FLUSHALL")
			l := s.running(runregistry.ConversationID(fmt.Sprint("c-", frames, "-", size)))
			for after := 0; after < frames; after += 10 {
				var lines []string
				for range min(10, frames-after) {
					lines = append(lines, strings.Repeat("x", size))
				}
				s.persist(l, batch(runregistry.Seq(after), lines...))
			}
			if _, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
				t.Fatal(err)
			}
			if got, most := memoryOf(t, s.redis), int64(8000+frames*(size*13/10+20)); got > most {
				t.Errorf("%d frames of %d bytes take %d bytes, want %d at most", frames, size, got, most)
			}
		}
	}
}

// memoryOf adds up what all keys of a server take.
func memoryOf(t *testing.T, r *testkit.Redis) (bytes int64) {
	t.Helper()
	keys, _ := r.Do("KEYS", "*").([]any)
	for _, key := range keys {
		n, _ := r.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64)
		bytes += n
	}
	return bytes
}
