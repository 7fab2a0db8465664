package caddymodule

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// storageKey is where Caddy's storage keeps the signing key of sessions, which
// the instances that share the storage share too.
const storageKey = "agent_runs/session_secret"

// storageTimeout bounds a storage that does not answer.
const storageTimeout = 15 * time.Second

// storedSecret returns the signing key from a storage, and makes it on first
// use. The lock keeps two instances from making two.
func storedSecret(storage certmagic.Storage) (secret []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	if secret, err = storage.Load(ctx, storageKey); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return secret, wrapSecret(err)
	}
	if err := storage.Lock(ctx, storageKey); err != nil {
		return nil, fmt.Errorf("locking session secret: %w", err)
	}
	defer func() {
		// The time may be up, and the lock must still go.
		err = errors.Join(err, storage.Unlock(context.WithoutCancel(ctx), storageKey))
	}()
	if secret, err = storage.Load(ctx, storageKey); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return secret, wrapSecret(err)
	}
	secret = newSecret()
	if err := storage.Store(ctx, storageKey, secret); err != nil {
		return nil, fmt.Errorf("storing session secret: %w", err)
	}
	return secret, nil
}

// newSecret makes a signing key.
func newSecret() []byte {
	secret := make([]byte, authz.MinSecret)
	rand.Read(secret)
	return secret
}

func wrapSecret(err error) error {
	if err != nil {
		return fmt.Errorf("reading session secret: %w", err)
	}
	return nil
}
