package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Load implements [runregistry.Reader].
func (s *Store) Load(ctx context.Context, id runregistry.RunID) (*runregistry.Record, error) {
	var e *entry
	err := s.usable(ctx, id)
	if err == nil {
		e, err = s.load(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", id, err)
	}
	return e.copied(), nil
}

// Read implements [runregistry.Reader]. Live readers are served from memory;
// everybody else, and whoever is behind, from Redis.
func (s *Store) Read(ctx context.Context, q runregistry.PageQuery) (runregistry.Page, error) {
	page, err := s.read(ctx, &q)
	if n := len(page.Frames); n < len(q.Into) {
		clear(q.Into[n:]) // a reader at rest must not keep its last page
	}
	if err != nil {
		return page, fmt.Errorf("reading %s: %w", q.Run, err)
	}
	return page, nil
}

func (s *Store) read(ctx context.Context, q *runregistry.PageQuery) (runregistry.Page, error) {
	if err := s.usable(ctx, q.Run); err != nil {
		return runregistry.Page{}, err
	}
	t := s.tails.get(q.Run)
	if t == nil {
		page, _, err := s.readLog(ctx, q)
		return page, err
	}
	if page, ok := t.page(q, s.clock.now()); ok {
		return page, nil
	}
	asked := t.asking()
	page, st, err := s.readLog(ctx, q)
	if st != nil {
		t.mu.Lock()
		t.learnLocked(*st, asked)
		if n := len(page.Frames); n > 0 && page.Frames[n-1].Seq == page.Last {
			t.window.add(page.Frames)
		}
		t.mu.Unlock()
	}
	return page, err
}

// maxPosition is above every number of a frame; scripts count exactly to it.
const maxPosition = 1<<53 - 1

// readLog reads from Redis. The standing is nil when Redis gave no answer.
func (s *Store) readLog(ctx context.Context, q *runregistry.PageQuery) (runregistry.Page, *standing, error) {
	limit := q.MaxBytes
	if limit <= 0 {
		limit = runregistry.PageBytes
	}
	r, err := s.eval(ctx, s.clients.calls, call(readScript).
		key(s.keys.run(q.Run), s.keys.frames(q.Run)).
		arg(uint64(min(q.After, maxPosition)), limit, runregistry.PageFrames))
	if err == nil {
		err = outcome(r.word())
	}
	if err != nil {
		return runregistry.Page{}, nil, err
	}
	st := parseStanding(r[2:])
	now := s.clock.now()
	if st.state.Terminal() && !now.Before(st.until) {
		return runregistry.Page{}, nil, runregistry.ErrNoRun
	}
	page := runregistry.Page{Frames: q.Into[:0], State: st.state, Epoch: st.epoch, First: st.first, Last: st.last, Final: st.final}
	if st.state.Terminal() && !now.Before(st.framesUntil) {
		page.First = 0
	}
	if q.After >= page.Last {
		return page, &st, nil
	}
	first := r.seq(readFrames - 1)
	if page.First == 0 || q.After+1 < page.First || first != q.After+1 {
		page.First = missing(page.First, first, q.After)
		return page, &st, runregistry.ErrExpired
	}
	page.Frames = parseFrames(page.Frames, first, r[readFrames:])
	return page, &st, nil
}

// missing says where a log begins that does not hold what its record promises:
// a server gave frames up to have room for the end of the run.
func missing(promised, first, after runregistry.Seq) runregistry.Seq {
	if first > after+1 {
		return first
	}
	if first == 0 && promised <= after+1 {
		return 0
	}
	return promised
}

// readFrames is where the frames begin in what the script says.
const readFrames = 11

// parseStanding reads where a run stands from what scripts say about it.
func parseStanding(r reply) standing {
	return standing{
		state: runregistry.State(r.number(0)), first: r.seq(1), last: r.seq(2), final: r.seq(3),
		framesUntil: moment(r.number(4)), until: moment(r.number(5)), revision: uint64(r.number(6)), epoch: runregistry.Epoch(r.number(7)),
	}
}

func parseFrames(dst []runregistry.Frame, first runregistry.Seq, r reply) []runregistry.Frame {
	for i := 0; i+1 < len(r); i += 2 {
		dst = append(dst, runregistry.Frame{Seq: first, At: moment(r.number(i)), Data: []byte(r.text(i + 1))})
		first++
	}
	return dst
}

// Current implements [runregistry.Reader].
func (s *Store) Current(ctx context.Context, scope runregistry.Scope, c runregistry.ConversationID) (*runregistry.Record, error) {
	e, err := s.current(ctx, scope, c)
	if err != nil {
		return nil, fmt.Errorf("looking up a conversation: %w", err)
	}
	return e.copied(), nil
}

func (s *Store) current(ctx context.Context, scope runregistry.Scope, c runregistry.ConversationID) (*entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	dialogue, err := s.dialogueOf(ctx, scope, c)
	switch {
	case err != nil:
		return nil, err
	case dialogue == "":
		return nil, runregistry.ErrNoRun
	}
	ids, err := s.speakers(ctx, partition(scope), dialogue)
	if err != nil {
		return nil, err
	}
	entries, err := s.loadAll(ctx, ids)
	if err != nil {
		return nil, err
	}
	var best *entry
	for _, e := range entries {
		switch {
		case e == nil:
		case !e.rec.Lined && (best == nil || e.rec.State.Active()):
			return e, nil
		case e.rec.Lined:
			best = e // the first in line is the last of them
		}
	}
	if best == nil {
		return nil, runregistry.ErrNoRun
	}
	return best, nil
}

// speakers are the runs that a conversation may be about, newest first: those
// that hold it or wait for it, then the last ones. Among as many as may wait and
// one more there is one that does not, if there is any.
func (s *Store) speakers(ctx context.Context, at runregistry.Partition, dialogue string) ([]runregistry.RunID, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	pipe := s.clients.calls.Pipeline()
	holders := pipe.ZRevRange(ctx, s.keys.holders(at, dialogue), 0, runregistry.MaxLine)
	// The very last may have expired a moment ago.
	last := pipe.ZRevRange(ctx, s.keys.dialogue(at, dialogue), 0, 9)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(ctx, err)
	}
	return runIDs(append(holders.Val(), last.Val()...)), nil
}

func runIDs(texts []string) []runregistry.RunID {
	ids := make([]runregistry.RunID, len(texts))
	for i, text := range texts {
		ids[i] = runregistry.RunID(text)
	}
	return ids
}

// dialogueOf returns the conversation of that name, or "".
func (s *Store) dialogueOf(ctx context.Context, scope runregistry.Scope, c runregistry.ConversationID) (string, error) {
	if c == "" {
		return "", nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	top, err := s.clients.calls.ZRevRangeWithScores(ctx, s.keys.name(partition(scope), scope, c), 0, 0).Result()
	if err != nil {
		return "", unavailable(ctx, err)
	}
	return s.dialogueIn(top), nil
}

// dialogueIn is the dialogue of the longest-lived carrier of a name.
func (s *Store) dialogueIn(top []redis.Z) string {
	if len(top) == 0 || int64(top[0].Score) <= s.clock.now().UnixMilli() {
		return ""
	}
	member, _ := top[0].Member.(string)
	for i := range len(member) {
		if member[i] == ':' {
			return member[:i]
		}
	}
	return ""
}

// ByUpstream implements [runregistry.Reader].
func (s *Store) ByUpstream(ctx context.Context, scope runregistry.Scope, upstreamID string) (*runregistry.Record, error) {
	e, err := s.byUpstream(ctx, scope, upstreamID)
	if err != nil {
		return nil, fmt.Errorf("looking up an id of upstream: %w", err)
	}
	return e.copied(), nil
}

func (s *Store) byUpstream(ctx context.Context, scope runregistry.Scope, upstreamID string) (*entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if upstreamID == "" {
		return nil, runregistry.ErrNoRun
	}
	id, err := s.get(ctx, s.keys.upstream(partition(scope), scope, upstreamID))
	if err != nil {
		return nil, err
	}
	if err := known(runregistry.RunID(id)); err != nil {
		return nil, err
	}
	return s.load(ctx, runregistry.RunID(id))
}

// get returns the value of a string key, or "".
func (s *Store) get(ctx context.Context, key string) (string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	v, err := s.clients.calls.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", unavailable(ctx, err)
	}
	return v, nil
}

// tidy turns a hint's number into one; hints come from our own scripts.
func tidy(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
