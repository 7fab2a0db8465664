package embeddedstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// listBatch is how many runs a list takes from the index at a time: a filter
// that finds little must not keep admissions waiting.
const listBatch = 256

// List implements [runregistry.Reader].
func (s *Store) List(ctx context.Context, q runregistry.ListQuery) (runregistry.List, error) {
	list, err := s.list(ctx, &q)
	if err != nil {
		return runregistry.List{}, fmt.Errorf("listing runs: %w", err)
	}
	return list, nil
}

func (s *Store) list(ctx context.Context, q *runregistry.ListQuery) (runregistry.List, error) {
	if err := s.await(ctx); err != nil {
		return runregistry.List{}, err
	}
	before, err := parsePage(q.Page)
	if err != nil {
		return runregistry.List{}, err
	}
	var found runregistry.List
	var last uint64 // number of the last record of this page
	for limit := q.Bound(); ; {
		batch, rest, err := s.listed(ctx, q, before)
		if err != nil {
			return runregistry.List{}, err
		}
		for _, at := range batch {
			rec, err := at.run.snapshot()
			if err != nil || q.State != runregistry.StateNone && rec.State != q.State {
				continue // gone since, or not asked for
			}
			if len(found.Records) == limit {
				found.Next = formatPage(last)
				return found, nil
			}
			found.Records, last = append(found.Records, rec), at.number
		}
		if rest == 0 {
			return found, nil
		}
		before = rest
	}
}

// listed looks at the next runs with numbers below one, and returns those of
// the conversation asked for. Below rest it has not looked; 0 is the end.
func (s *Store) listed(ctx context.Context, q *runregistry.ListQuery, before uint64) (batch []slot, rest uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil { // a long list may be given up between two batches
		return nil, 0, err
	}
	s.sweepLocked(time.Now(), everything)
	acct := s.claims.accounts[q.Subject]
	if acct == nil {
		return nil, 0, nil
	}
	seen := 0
	for number, r := range acct.runs.before(before) {
		if q.Conversation == "" || s.claims.inConversation(r, q.Conversation) {
			batch = append(batch, slot{number, r})
		}
		if seen++; seen == listBatch {
			return batch, number, nil
		}
	}
	return batch, 0, nil
}

// formatPage makes the token of the page that follows a number. Numbers count
// the runs of one subject, so they tell nobody anything about others.
func formatPage(number uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, number))
}

func parsePage(token string) (uint64, error) {
	if token == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return 0, runregistry.ErrMalformedPage
	}
	number, n := binary.Uvarint(raw)
	if n != len(raw) || number == 0 {
		return 0, runregistry.ErrMalformedPage
	}
	return number, nil
}
