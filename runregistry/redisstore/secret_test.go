package redisstore_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"sync"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

func draw() []byte { return []byte(rand.Text()) }

func TestInstancesAgreeOnASecret(t *testing.T) {
	server := testkit.StartRedis(t)
	secrets := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range secrets {
		s := open(t, redisstore.Options{Addrs: []string{server.Addr()}})
		all.Go(func() {
			secret, err := s.Secret(t.Context(), "session", draw)
			if err != nil {
				t.Errorf("instance %d: got %v, want no error", i, err)
			}
			secrets[i] = secret
		})
	}
	all.Wait()
	for i, secret := range secrets {
		if len(secret) == 0 || !bytes.Equal(secret, secrets[0]) {
			t.Errorf("instance %d: got %q, want %q", i, secret, secrets[0])
		}
	}
	other, err := open(t, redisstore.Options{Addrs: []string{server.Addr()}}).Secret(t.Context(), "other", draw)
	if err != nil || bytes.Equal(other, secrets[0]) {
		t.Errorf("secret of another name: got %q (%v), want another", other, err)
	}
	if ttl := server.Do("TTL", "ag:secret:session"); ttl.(int64) < 300*24*3600 {
		t.Errorf("deadline of the secret: got %v s, want most of 400 days", ttl)
	}
}

func TestNoSecretIsMadeUpWithoutRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	s := open(t, redisstore.Options{Addrs: []string{server.Addr()}})
	server.Kill()
	if secret, err := s.Secret(t.Context(), "session", draw); !errors.Is(err, runregistry.ErrUnavailable) || secret != nil {
		t.Errorf("got %q and %v, want no secret and ErrUnavailable", secret, err)
	}
}
