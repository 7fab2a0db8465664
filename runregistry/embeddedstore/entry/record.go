package entry

import "github.com/caddy-agent-runs/caddy-agent-runs/runregistry"

// record is all of a record but its snapshot, which has an entry of its own,
// and its oldest stored frame, which the log tells.
func (w *wire) record(r *runregistry.Record) {
	text(w, &r.ID)
	w.subject(&r.Subject)
	text(w, &r.Scope)
	text(w, &r.Conversation)
	texts(w, &r.Aliases)
	w.bool(&r.Named)
	text(w, &r.Route)
	number(w, &r.Attempt)
	text(w, &r.Previous)
	w.standing(r)
	text(w, &r.Release)
	text(w, &r.Resource)
	text(w, &r.Model)
	text(w, &r.Dialect)
	text(w, &r.Format)
	w.times(r)
	w.response(&r.Response)
	text(w, &r.UpstreamID)
	w.origin(r)
	text(w, &r.Position)
	number(w, &r.Reattached)
	w.bool(&r.Ending)
	w.bool(&r.Lined)
	number(w, &r.LastSeq)
	number(w, &r.FinalSeq)
	number(w, &r.Bytes)
	w.cancel(&r.Cancel)
	w.usage(&r.Usage)
	w.delivery(&r.Delivery)
	number(w, &r.SnapshotSeq)
	w.digest(&r.Fingerprint)
	w.duration(&r.Retention.Frames)
	w.duration(&r.Retention.Record)
	w.duration(&r.Retention.Key)
	number(w, &r.Revision)
}

func (w *wire) subject(s *runregistry.Subject) {
	text(w, &s.Realm)
	text(w, &s.Tenant)
	text(w, &s.Issuer)
	text(w, &s.Sub)
}

func (w *wire) standing(r *runregistry.Record) {
	number(w, &r.State)
	text(w, &r.Reason)
	number(w, &r.Effect)
	number(w, &r.Epoch)
}

func (w *wire) origin(r *runregistry.Record) {
	origin := string(r.Origin)
	text(w, &origin)
	if w.reading && origin != "" {
		r.Origin = []byte(origin)
	}
}

func (w *wire) times(r *runregistry.Record) {
	w.time(&r.CreatedAt)
	w.time(&r.DispatchedAt)
	w.time(&r.FirstFrameAt)
	w.time(&r.ActivityAt)
	w.time(&r.EndedAt)
	w.time(&r.FramesExpireAt)
	w.time(&r.ExpiresAt)
}

func (w *wire) response(r **runregistry.Response) {
	there := *r != nil
	w.bool(&there)
	switch {
	case !there && w.reading:
		*r = nil
		return
	case !there:
		return
	case w.reading:
		*r = new(runregistry.Response)
	}
	p := *r
	number(w, &p.Status)
	w.bool(&p.Stream)
	w.bool(&p.Sized)
	w.bool(&p.Kept)
	w.fields(&p.Header)
}

func (w *wire) fields(h *map[string][]string) {
	n := w.count(len(*h))
	if !w.reading {
		for name, values := range *h {
			text(w, &name)
			texts(w, &values)
		}
		return
	}
	*h = nil
	for range n {
		var name string
		var values []string
		text(w, &name)
		texts(w, &values)
		if *h == nil {
			*h = make(map[string][]string)
		}
		(*h)[name] = values
	}
}

func (w *wire) cancel(c *runregistry.Cancel) {
	number(w, &c.Version)
	w.time(&c.RequestedAt)
	text(w, &c.Outcome)
	text(w, &c.Upstream)
}

func (w *wire) usage(u *runregistry.Usage) {
	number(w, &u.InputTokens)
	number(w, &u.OutputTokens)
	w.bool(&u.Reported)
	w.bool(&u.Complete)
}

func (w *wire) delivery(d *runregistry.Delivery) {
	number(w, &d.Pending)
	number(w, &d.Open)
	w.bool(&d.Headers)
	w.bool(&d.BrokenEarly)
	w.bool(&d.BrokenLate)
}
