package redisstore

import (
	"context"
	"time"
)

// secretLife is how long a secret is kept after the last process asked for it:
// longer than any browser keeps what was signed with it.
const secretLife = 400 * 24 * time.Hour

// Secret returns the secret of a name, the same for all instances. The first to
// ask makes it; whoever loses that race gets the winner's.
func (s *Store) Secret(ctx context.Context, name string, generate func() []byte) ([]byte, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	key := s.keys.secret(name)
	pipe := s.clients.calls.Pipeline()
	pipe.SetNX(ctx, key, generate(), secretLife)
	pipe.PExpire(ctx, key, secretLife)
	kept := pipe.Get(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(ctx, err)
	}
	return kept.Bytes()
}
