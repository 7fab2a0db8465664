package embeddedstore

import (
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// claims are the indexes over all runs: everything that an admission decides
// by, and the look-ups that are not by run id. [Store.mu] guards them.
type claims struct {
	accounts  map[runregistry.Subject]*account
	places    map[place]*naming
	upstreams map[upstreamName]*run
}

func newClaims() claims {
	return claims{
		accounts:  make(map[runregistry.Subject]*account),
		places:    make(map[place]*naming),
		upstreams: make(map[upstreamName]*run),
	}
}

// account is what one subject has here. It goes with its last run and key.
type account struct {
	runs   roster
	active int // runs that count in the subject's limit
	// keys are the claimed idempotency keys. A key without a run is that of a
	// deleted one: reserved, but with nothing to answer.
	keys map[request]*run
	// echoes are the runs that a request without a key may repeat.
	echoes map[request]*roster
}

// request names a request of a subject: by its idempotency key, or by the
// implicit fingerprint that stands in for one.
type request struct {
	route  string
	digest runregistry.Digest
}

// place is a name of a conversation.
type place struct {
	scope runregistry.Scope
	name  runregistry.ConversationID
}

// naming says which dialogue a place names, and how many of its runs call it
// so. A name lives as long as a run that carries it.
type naming struct {
	dialogue *dialogue
	carriers int
}

// dialogue is a conversation under all its names.
type dialogue struct {
	number uint64 // of the run that opened it
	runs   roster
	// holders are the active runs that have not given the conversation away and
	// those that wait for it in line, in the order of their admission.
	holders []*run
}

// current returns the run that the conversation is about: among its holders,
// else its last one.
func (d *dialogue) current() *run {
	if n := len(d.holders); n > 0 {
		return d.holders[runregistry.Speaker(n, func(i int) bool { return d.holders[i].waits() })]
	}
	return d.runs.last()
}

// upstreamName is upstream's own id of a run.
type upstreamName struct {
	scope runregistry.Scope
	id    string
}

// enter claims everything for a new run.
func (c *claims) enter(r *run) {
	acct := c.open(r.subject)
	r.account, r.holding = acct, true
	r.listed = acct.runs.add(r)
	acct.active++
	switch {
	case !r.key.digest.IsZero():
		acct.keys[r.key] = r
	case !r.echo.digest.IsZero():
		acct.echo(r)
	}
	if r.rec.Conversation != "" {
		c.converse(r)
	}
}

// echo lets requests without a key repeat r.
func (c *account) echo(r *run) {
	if c.echoes[r.echo] == nil {
		c.echoes[r.echo] = new(roster)
	}
	r.echoed = c.echoes[r.echo].add(r)
}

// open returns the account of a subject, a new one if need be.
func (c *claims) open(s runregistry.Subject) *account {
	acct := c.accounts[s]
	if acct == nil {
		acct = &account{keys: make(map[request]*run), echoes: make(map[request]*roster)}
		c.accounts[s] = acct
	}
	return acct
}

// converse puts a new run into its conversation.
func (c *claims) converse(r *run) {
	at := place{r.scope, r.rec.Conversation}
	n := c.places[at]
	if n == nil {
		n = &naming{dialogue: &dialogue{number: uint64(r.number)}}
		c.places[at] = n
	}
	n.carriers++
	n.dialogue.join(r)
}

// join adds an active run.
func (d *dialogue) join(r *run) {
	r.dialogue = d
	r.spoken = d.runs.add(r)
	if r.holding {
		d.holders = append(d.holders, r)
	}
}

// dialogueOf returns the conversation of that name, or nil.
func (c *claims) dialogueOf(at place) *dialogue {
	if n := c.places[at]; n != nil {
		return n.dialogue
	}
	return nil
}

// free reports whether name may be a name of r's conversation: it does not
// belong to another one.
func (c *claims) free(r *run, name runregistry.ConversationID) bool {
	n := c.places[place{r.scope, name}]
	return n == nil || n.dialogue == r.dialogue
}

// alias makes name, which is free, another name of r's conversation, or the
// first one of a run that has none.
func (c *claims) alias(r *run, name runregistry.ConversationID) {
	at := place{r.scope, name}
	n := c.places[at]
	if r.dialogue == nil {
		(&dialogue{number: uint64(r.number)}).join(r)
	}
	if n == nil {
		n = &naming{dialogue: r.dialogue}
		c.places[at] = n
	}
	if !r.rec.InConversation(name) {
		n.carriers++
	}
}

// inConversation reports whether name is one of the names of r's conversation.
func (c *claims) inConversation(r *run, name runregistry.ConversationID) bool {
	return r.dialogue != nil && c.dialogueOf(place{r.scope, name}) == r.dialogue
}

// upstream moves r to upstream's new id of it. Where two runs report one id
// the later report counts.
func (c *claims) upstream(r *run, was string) {
	c.forgetUpstream(r, was)
	c.upstreams[upstreamName{r.scope, r.rec.UpstreamID}] = r
}

func (c *claims) forgetUpstream(r *run, id string) {
	if name := (upstreamName{r.scope, id}); c.upstreams[name] == r {
		delete(c.upstreams, name)
	}
}

// release gives up what only an active run holds: its conversation and its
// place in the subject's limit.
func (c *claims) release(r *run) {
	if !r.holding {
		return // it was superseded
	}
	r.holding = false
	r.account.active--
	if r.dialogue != nil {
		d := r.dialogue
		d.holders = slices.DeleteFunc(d.holders, func(o *run) bool { return o == r })
		if len(d.holders) > 0 && d.holders[0].lined {
			d.holders[0].watchers.wake() // its turn may have come
		}
	}
}

// holdsKey reports whether r answers for its idempotency key.
func (c *claims) holdsKey(r *run) bool { return r.account.keys[r.key] == r }

// freeKey forgets r's idempotency key.
func (c *claims) freeKey(r *run) {
	if c.holdsKey(r) {
		delete(r.account.keys, r.key)
	}
}

// leave gives up everything that a run that has ended still has.
func (c *claims) leave(r *run) {
	c.freeKey(r)
	c.forgetUpstream(r, r.rec.UpstreamID)
	acct := r.account
	acct.runs.remove(r.listed)
	if echoes := acct.echoes[r.echo]; echoes != nil {
		if echoes.remove(r.echoed); echoes.live == 0 {
			delete(acct.echoes, r.echo)
		}
	}
	c.close(r.subject)
	if r.dialogue == nil {
		return
	}
	r.dialogue.runs.remove(r.spoken)
	c.unname(r, r.rec.Conversation)
	for _, name := range r.rec.Aliases {
		c.unname(r, name)
	}
}

func (c *claims) unname(r *run, name runregistry.ConversationID) {
	at := place{r.scope, name}
	if n := c.places[at]; n != nil {
		if n.carriers--; n.carriers == 0 {
			delete(c.places, at)
		}
	}
}

// reserve keeps the key of a deleted run.
func (c *claims) reserve(s runregistry.Subject, key request) {
	c.open(s).keys[key] = nil
}

// unreserve ends a reservation.
func (c *claims) unreserve(s runregistry.Subject, key request) {
	acct := c.accounts[s]
	if acct == nil {
		return
	}
	if r, ok := acct.keys[key]; ok && r == nil {
		delete(acct.keys, key)
	}
	c.close(s)
}

// close forgets an account that holds nothing.
func (c *claims) close(s runregistry.Subject) {
	if acct := c.accounts[s]; acct != nil && acct.runs.live == 0 && len(acct.keys) == 0 {
		delete(c.accounts, s)
	}
}
