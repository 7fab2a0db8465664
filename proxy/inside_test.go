package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func sealedWith(key string) *authz.Seal {
	return authz.NewSeal(func() ([]byte, error) { return []byte(strings.Repeat(key, authz.MinSecret)), nil })
}

// TestOneRunInAChainOfGateways: the outer one marks its request, the inner one
// lets it pass and takes the mark off. Without the same key it cannot tell.
func TestOneRunInAChainOfGateways(t *testing.T) {
	for key, runs := range map[string]int{"a": 0, "b": 1} {
		t.Run(key, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var seen http.Header
				inner := setup{config: []configure{generic}, seal: sealedWith("a")}.open(t, func(n int, w http.ResponseWriter, r *http.Request) error {
					seen = r.Header.Clone()
					return streams(data(2)...)(n, w, r)
				})
				outer := setup{config: []configure{generic}, seal: sealedWith(key)}.open(t, func(_ int, w http.ResponseWriter, r *http.Request) error {
					inner.handler.ServeHTTP(w, r.Clone(t.Context())) // as another process: without the context of the run
					return nil
				})
				answer := outer.Do(t, startChat().With("X-Run-Id", "run_forged")).Want(http.StatusOK)
				testkit.CheckIDs(t, answer.Run(), 1, answer.Rest())
				if got := len(inner.list(t, "")); got != runs {
					t.Errorf("the inner gateway has %d runs, want %d", got, runs)
				}
				if got, there := seen["X-Run-Id"]; there && runs == 0 {
					t.Errorf("the backend got %q", got)
				}
			})
		})
	}
}

// TestAClientsOwnMarkIsRemoved and not believed: neither when it starts
// something nor on a request that is not ours.
func TestAClientsOwnMarkIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen []string
		s := setup{config: []configure{generic}, seal: sealedWith("a")}.open(t, func(n int, w http.ResponseWriter, r *http.Request) error {
			seen = append(seen, r.Header.Get("X-Run-Id"))
			return streams(data(2)...)(n, w, r)
		})
		first := s.Do(t, startChat().With("X-Run-Id", "run_forged;until=99999999999;mac=AAAA")).Want(http.StatusOK)
		first.Rest()
		mark := seen[0]
		if first.Run() == "" || !strings.HasPrefix(mark, first.Run()+";") {
			t.Errorf("got run %q and the mark %q, want a run that is marked", first.Run(), mark)
		}
		s.Do(t, testkit.Ask{Path: "/page"}.With("X-Run-Id", "run_forged")).Want(http.StatusOK)
		s.Do(t, testkit.Ask{Path: "/page"}.With("X-Run-Id", mark)).Want(http.StatusOK) // seen at the backend, replayed elsewhere
		if seen[1] != "" || seen[2] != "" {
			t.Errorf("the backend got %q", seen[1:])
		}
	})
}
