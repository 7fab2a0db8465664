package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// listBatch is how many runs a list loads at a time.
const listBatch = 64

// List implements [runregistry.Reader].
func (s *Store) List(ctx context.Context, q runregistry.ListQuery) (runregistry.List, error) {
	list, err := s.list(ctx, &q)
	if err != nil {
		return runregistry.List{}, fmt.Errorf("listing runs: %w", err)
	}
	return list, nil
}

// slot is a place in a list: its number grows with every run of a subject.
type slot struct {
	run    runregistry.RunID
	number uint64
}

func (s *Store) list(ctx context.Context, q *runregistry.ListQuery) (found runregistry.List, err error) {
	if err := s.ready(ctx); err != nil {
		return found, err
	}
	before, err := parsePage(q.Page)
	if err != nil {
		return found, err
	}
	keep, err := s.filter(ctx, q)
	if err != nil {
		return found, err
	}
	var last uint64 // number of the last record of this page
	for {
		batch, err := s.listed(ctx, q.Subject, before)
		if err != nil || len(batch) == 0 {
			return found, err
		}
		entries, err := s.loadAll(ctx, runsOf(batch))
		if err != nil {
			return runregistry.List{}, err
		}
		for i, e := range entries {
			switch {
			case e == nil || !keep(e):
				continue // gone since, or not asked for
			case len(found.Records) == q.Bound():
				found.Next = formatPage(last)
				return found, nil
			}
			found.Records, last = append(found.Records, e.copied()), batch[i].number
		}
		before = batch[len(batch)-1].number
	}
}

func runsOf(batch []slot) []runregistry.RunID {
	ids := make([]runregistry.RunID, len(batch))
	for i := range batch {
		ids[i] = batch[i].run
	}
	return ids
}

// scopes are the two in which a subject may have runs.
func scopes(sub runregistry.Subject) [2]runregistry.Scope {
	return [2]runregistry.Scope{runregistry.SubjectScope(sub), runregistry.TenantScope(sub)}
}

// filter returns what a query asks for.
func (s *Store) filter(ctx context.Context, q *runregistry.ListQuery) (func(*entry) bool, error) {
	var dialogues [2]string
	if q.Conversation != "" {
		for i, scope := range scopes(q.Subject) {
			d, err := s.dialogueOf(ctx, scope, q.Conversation)
			if err != nil {
				return nil, err
			}
			dialogues[i] = d
		}
	}
	return func(e *entry) bool {
		if q.State != runregistry.StateNone && e.rec.State != q.State {
			return false
		}
		own := e.claims.dialogue
		return q.Conversation == "" || own != "" && (own == dialogues[0] || own == dialogues[1])
	}, nil
}

// listed returns the next runs with numbers below one, newest first. A subject
// has an index in the partition of each of its scopes.
func (s *Store) listed(ctx context.Context, sub runregistry.Subject, before uint64) ([]slot, error) {
	limit, cancel := s.deadline(ctx)
	defer cancel()
	below := "(" + strconv.FormatUint(before, 10)
	pipe := s.clients.calls.Pipeline()
	seen := make(map[runregistry.Partition]*redis.ZSliceCmd, 2)
	for _, scope := range scopes(sub) {
		at := partition(scope)
		if seen[at] == nil {
			seen[at] = pipe.ZRevRangeByScoreWithScores(limit, s.keys.list(at, sub), &redis.ZRangeBy{Min: "-inf", Max: below, Count: listBatch})
		}
	}
	if _, err := pipe.Exec(limit); err != nil {
		return nil, unavailable(ctx, err)
	}
	var all []slot
	for _, cmd := range seen {
		for _, z := range cmd.Val() {
			id, _ := z.Member.(string)
			all = append(all, slot{runregistry.RunID(id), uint64(z.Score)})
		}
	}
	slices.SortFunc(all, func(a, b slot) int { return cmp.Compare(b.number, a.number) })
	return all[:min(len(all), listBatch)], nil
}

// formatPage makes the token of the page that follows a number.
func formatPage(number uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, number))
}

func parsePage(token string) (uint64, error) {
	if token == "" {
		return math.MaxInt64, nil
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
