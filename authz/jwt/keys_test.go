package jwt_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// keyServer serves a key set, or nothing while it is down.
type keyServer struct {
	mu      sync.Mutex // guards everything below
	set     string
	fetches []time.Time
}

func (s *keyServer) serve(set string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
}

// RoundTrip implements [http.RoundTripper].
func (s *keyServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches = append(s.fetches, time.Now())
	if s.set == "" {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(s.set))}, nil
}

func caseFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "50-jwks-rotation-and-flood", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestCase50JWKSRotationAndFlood starts with the issuer down, floods it with
// unknown keys, lets it rotate, and takes it away.
func TestCase50JWKSRotationAndFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))) // the tokens were issued before
		server := new(keyServer)
		set, err := keyset.NewRemote("https://issuer.example/keys", server, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		i := identity(t, jwt.Issuer{
			Name: "https://issuer.example", Audience: []string{"stream-gateway"}, Keys: set,
			Algorithms: keyset.DefaultAlgorithms, Subject: "sub", Leeway: 30 * time.Second,
		})
		accepted := func(token string) bool {
			_, err := i.Identify(bearing(token))
			return err == nil
		}
		older, newer := caseFile(t, "old.jwt"), caseFile(t, "new.jwt")
		if _, err := i.Identify(bearing(older)); !errors.Is(err, authz.ErrUnavailable) {
			t.Errorf("before any key is known: got %v, want %v", err, authz.ErrUnavailable)
		}
		time.Sleep(5 * time.Second)
		server.serve(caseFile(t, "jwks-old.json"))
		time.Sleep(15 * time.Second)
		if !accepted(older) {
			t.Error("15s after the issuer came up: got its token refused, want it accepted")
		}
		before := len(server.fetches)
		unknown := strings.Fields(caseFile(t, "unknown-kid.txt"))
		for n := range 200 {
			wantRefused(t, i, "unknown kid", unknown[n%len(unknown)])
			began := time.Now()
			if !accepted(older) || time.Since(began) > 500*time.Millisecond {
				t.Errorf("good token in the flood: accepted %t after %v, want at once", accepted(older), time.Since(began))
			}
			time.Sleep(50 * time.Millisecond)
		}
		server.serve(caseFile(t, "jwks-new.json"))
		rotated := time.Now()
		for !accepted(newer) {
			time.Sleep(time.Second)
		}
		if got := time.Since(rotated); got > 30*time.Second {
			t.Errorf("new key: accepted after %v, want 30s or less", got)
		}
		if got := len(server.fetches) - before; got > 2 {
			t.Errorf("fetches of flood and rotation: got %d, want 2 or less", got)
		}
		server.serve("")
		time.Sleep(time.Hour)
		if !accepted(older) || !accepted(newer) {
			t.Error("an hour into an outage: got a token refused, want both accepted")
		}
	})
}

// SEC-13: without keys nobody gets in, and a token is not called bad.
func TestTokensWaitForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := keyset.NewRemote("https://login.example/keys", new(keyServer), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		of := publicIssuer(t)
		of.Keys = set
		i := identity(t, of)
		c, err := i.Identify(bearing(good().headed(members{"alg": "RS256"}).sign(t)))
		if !errors.Is(err, authz.ErrUnavailable) || errors.Is(err, authz.ErrBadCredentials) || c.Known {
			t.Errorf("got %+v and %v, want %v", c, err, authz.ErrUnavailable)
		}
		wantRefused(t, i, "what no key could verify", good().sign(t))
	})
}
