package embeddedstore

import (
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore/entry"
)

// ties returns what must be known of r to enter it again once it has ended.
func (c *claims) ties(r *run) entry.Ties {
	t := entry.Ties{Keyed: c.holdsKey(r)}
	if r.dialogue != nil {
		t.Dialogue = r.dialogue.number
	}
	return t
}

// foresee returns what is told about a new run, before it has entered.
func (c *claims) foresee(r *run) entry.Start {
	t := entry.Ties{Keyed: !r.key.digest.IsZero()}
	if r.rec.Conversation != "" {
		t.Dialogue = uint64(r.number)
		if d := c.dialogueOf(place{r.scope, r.rec.Conversation}); d != nil {
			t.Dialogue = d.number
		}
	}
	start := r.start(t)
	start.Record = r.rec
	start.Listed = 1
	if acct := c.accounts[r.subject]; acct != nil {
		start.Listed = acct.runs.next + 1
	}
	return start
}

// restore enters a run that has ended in an earlier process. Runs come in the
// order of their admission; dialogues are those that were met before, by number.
func (c *claims) restore(r *run, t entry.Ties, dialogues map[uint64]*dialogue) {
	r.account = c.open(r.subject)
	r.listed = r.account.runs.restore(r, r.listed)
	if t.Keyed && !r.key.digest.IsZero() {
		r.account.keys[r.key] = r
	}
	if !r.echo.digest.IsZero() {
		r.account.echo(r)
	}
	if r.rec.UpstreamID != "" {
		c.upstreams[upstreamName{r.scope, r.rec.UpstreamID}] = r
	}
	if t.Dialogue == 0 {
		return
	}
	d := dialogues[t.Dialogue]
	if d == nil {
		d = &dialogue{number: t.Dialogue}
		dialogues[t.Dialogue] = d
	}
	d.join(r)
	c.rename(r, r.rec.Conversation)
	for _, name := range r.rec.Aliases {
		c.rename(r, name)
	}
}

// rename gives r's conversation a name that r carries.
func (c *claims) rename(r *run, name runregistry.ConversationID) {
	at := place{r.scope, name}
	n := c.places[at]
	if n == nil {
		n = &naming{dialogue: r.dialogue}
		c.places[at] = n
	}
	n.carriers++
}
