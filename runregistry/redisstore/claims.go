package redisstore

import (
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// claimed adds what take_claims takes.
func (s *Store) claimed(p *params, e *entry) {
	r, k := &e.rec, s.keys
	at := r.ID.Partition()
	p.key(k.run(r.ID), k.frames(r.ID), k.readers(r.ID), k.leases(at),
		k.active(at, r.Subject), k.list(at, r.Subject), k.listed(at, r.Subject))
	keyed := !e.claims.key.IsZero()
	if keyed {
		p.key(k.claim(at, r.Subject, r.Route, e.claims.key))
	}
	names := e.names()
	if e.claims.dialogue != "" {
		p.key(k.holders(at, e.claims.dialogue), k.dialogue(at, e.claims.dialogue), k.dialogued(at, e.claims.dialogue))
		for _, name := range names {
			p.key(k.name(at, r.Scope, name))
		}
	}
	p.arg(string(r.ID), flag(keyed), e.claims.dialogue, len(names))
}

// names are those that the run carries.
func (e *entry) names() []runregistry.ConversationID {
	if e.claims.dialogue == "" {
		return nil
	}
	return append([]runregistry.ConversationID{e.rec.Conversation}, e.rec.Aliases...)
}

// ending adds what take_end takes: how long from now on everything about an
// ended run is kept.
func (p *params) ending(e *entry, now time.Time, freesKey bool) {
	r := &e.rec
	left := func(t time.Time) int64 { return max(t.Sub(now).Milliseconds(), 0) }
	p.arg(uint64(r.FinalSeq), left(r.FramesExpireAt), left(r.ExpiresAt), left(r.KeyExpiresAt()), flag(freesKey))
}

// upstream adds what take_upstream takes: upstream's id was moves to the one
// of n.
func (s *Store) upstream(p *params, was string, n *entry) {
	r := &n.rec
	ttl, moved := safety, r.UpstreamID != was
	if r.State.Terminal() {
		ttl = r.ExpiresAt.Sub(r.EndedAt)
	}
	for _, name := range []struct {
		id string
		is bool
	}{{was, moved}, {r.UpstreamID, moved}, {was, !moved && r.State.Terminal()}} {
		is := name.is && name.id != ""
		if is {
			p.key(s.keys.upstream(r.ID.Partition(), r.Scope, name.id))
		}
		p.arg(flag(is))
	}
	p.arg(ttl.Milliseconds())
}
