package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// TestSecretIsMadeOnce: many instances that share a storage and start at the
// same time agree on one key.
func TestSecretIsMadeOnce(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	secrets := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() {
			secret, err := storedSecret(storage)
			if err != nil {
				t.Errorf("instance %d: got %v, want no error", i, err)
			}
			secrets[i] = secret
		})
	}
	wg.Wait()
	for i, secret := range secrets {
		if len(secret) < authz.MinSecret || !bytes.Equal(secret, secrets[0]) {
			t.Errorf("instance %d: got %d bytes, equal to the first %t, want one key of %d", i, len(secret), bytes.Equal(secret, secrets[0]), authz.MinSecret)
		}
	}
	if again, err := storedSecret(storage); err != nil || !bytes.Equal(again, secrets[0]) {
		t.Errorf("later: got another key (%v), want the same", err)
	}
}

// brokenStorage fails one kind of call.
type brokenStorage struct {
	certmagic.Storage
	fails string
}

var errBroken = errors.New("disk on fire")

func (b brokenStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if b.fails == "load" {
		return nil, errBroken
	}
	return b.Storage.Load(ctx, key)
}

func (b brokenStorage) Store(ctx context.Context, key string, value []byte) error {
	if b.fails == "store" {
		return errBroken
	}
	return b.Storage.Store(ctx, key, value)
}

func (b brokenStorage) Lock(ctx context.Context, key string) error {
	if b.fails == "lock" {
		return errBroken
	}
	return b.Storage.Lock(ctx, key)
}

// TestSecretIsNotMadeUpWhenStorageFails: a key that nobody else has would make
// strangers of everybody after the next reload. The lock is given back.
func TestSecretIsNotMadeUpWhenStorageFails(t *testing.T) {
	good := &certmagic.FileStorage{Path: t.TempDir()}
	for _, fails := range []string{"load", "lock", "store"} {
		secret, err := storedSecret(brokenStorage{Storage: good, fails: fails})
		if !errors.Is(err, errBroken) || secret != nil {
			t.Errorf("storage that fails to %s: got %d bytes and %v, want none and the failure", fails, len(secret), err)
		}
	}
	if secret, err := storedSecret(good); err != nil || len(secret) != authz.MinSecret {
		t.Errorf("storage that works again: got %d bytes and %v, want a key", len(secret), err)
	}
}

// TestErrorsDoNotShowSecrets, whether they are short or go with the wrong kind
// of identity.
func TestErrorsDoNotShowSecrets(t *testing.T) {
	for _, i := range []Identity{
		{Kind: identitySession, Secret: "hunter2"},
		{Kind: identityAnonymous, Secret: "hunter2"},
		{Kind: identitySession, Secret: "hunter2{http.request.host}"},
	} {
		if err := i.check(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("identity %s with a bad secret: got %v, want an error without it", i.Kind, err)
		}
	}
	t.Setenv("AGENT_RUNS_SHORT", "hunter2")
	if _, err := (Identity{Secret: "{env.AGENT_RUNS_SHORT}"}).expandSecret(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("short secret from the environment: got %v, want an error without it", err)
	}
}

// TestSecretComesFromTheConfiguration with its placeholders resolved.
func TestSecretComesFromTheConfiguration(t *testing.T) {
	want := strings.Repeat("s", authz.MinSecret)
	t.Setenv("AGENT_RUNS_SECRET", want)
	got, err := Identity{Secret: "{env.AGENT_RUNS_SECRET}"}.expandSecret()
	if err != nil || string(got) != want {
		t.Errorf("secret from the environment: got %q, %v, want %q", got, err, want)
	}
}
