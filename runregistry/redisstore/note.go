package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Note implements [runregistry.Noter].
func (s *Store) Note(ctx context.Context, id runregistry.RunID, name runregistry.Digest, note []byte, keep time.Duration) ([]byte, error) {
	if err := s.usable(ctx, id); err != nil {
		return nil, fmt.Errorf("leaving a note of %s: %w", id, err)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	key := s.keys.note(id, name)
	pipe := s.clients.calls.Pipeline()
	pipe.SetNX(ctx, key, note, keep)
	kept := pipe.Get(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("leaving a note of %s: %w", id, unavailable(ctx, err))
	}
	found, err := kept.Bytes()
	if err != nil || bytes.Equal(found, note) {
		return nil, err
	}
	return found, nil
}

// Rewrite implements [runregistry.Noter].
func (s *Store) Rewrite(ctx context.Context, id runregistry.RunID, name runregistry.Digest, note []byte) error {
	err := s.usable(ctx, id)
	if err == nil {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		if err = s.rewrite(ctx, s.keys.note(id, name), note); err != nil {
			err = unavailable(ctx, err)
		}
	}
	if err != nil {
		return fmt.Errorf("rewriting a note of %s: %w", id, err)
	}
	return nil
}

func (s *Store) rewrite(ctx context.Context, key string, note []byte) error {
	if note == nil {
		return s.clients.calls.Del(ctx, key).Err()
	}
	err := s.clients.calls.SetArgs(ctx, key, note, redis.SetArgs{Mode: "XX", KeepTTL: true}).Err()
	if errors.Is(err, redis.Nil) {
		return nil // there is none
	}
	return err
}
