package proxy

import (
	"strconv"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// form is the shape in which a reader gets frames.
type form uint8

const (
	formSSE      form = iota // event stream
	formEnvelope             // one JSON envelope per line
	formOwn                  // the run's own bytes, nothing added: lines and opaque pieces
)

// view is how one reader sees a run.
type view struct {
	form form
	// control adds the gateway's own events.
	control bool
	// follow waits for frames that are still to come.
	follow bool
	// ids puts our id into each frame.
	ids bool
	// keepalive is sent after silence; empty sends nothing.
	keepalive string
	every     time.Duration
	// runEnd ends a failed generic stream with run.end, because this reader has
	// shown by its cursor that it knows us.
	runEnd  bool
	dialect *dialect.Dialect
}

// viewOf decides how a reader sees a run, as far as the run is known.
type viewOf func(*runregistry.Record) (view, error)

// keepaliveSSE is a comment and ONE line feed. A blank line after it would
// dispatch an empty event in some clients.
const keepaliveSSE = ": keepalive\n"

// keepaliveEnvelope is a blank line, which readers of NDJSON skip.
const keepaliveEnvelope = "\n"

// ownView is a run in its own format as the dialect allows it.
func (h *Handler) ownView(rec *runregistry.Record) view {
	d := h.deps.Engine.dialectOf(rec)
	wire := d.WireFor(kindOf(rec.Format))
	v := view{form: formOwn, follow: true, dialect: d, keepalive: wire.Keepalive, every: h.cfg.Keepalive}
	if rec.Format == runregistry.FormatSSE {
		v.form, v.ids = formSSE, wire.IDs
	}
	if v.every > 0 {
		v.every = max(v.every, wire.KeepaliveGap)
	}
	return v
}

// controlView is an event stream with the gateway's events.
func (h *Handler) controlView(rec *runregistry.Record) view {
	return view{
		form: formSSE, control: true, follow: true, ids: true, dialect: h.deps.Engine.dialectOf(rec),
		keepalive: keepaliveSSE, every: h.cfg.Keepalive,
	}
}

// dialectOf returns the dialect of a record, generic while it is unknown.
func (e *Engine) dialectOf(rec *runregistry.Record) *dialect.Dialect {
	if d, ok := e.dialects.Lookup(rec.Dialect); ok {
		return d
	}
	return genericDialect
}

// genericDialect is what a run speaks until it is known better.
var genericDialect, _ = dialect.Lookup("generic")

// renderer puts frames into the bytes of one view. It reuses its memory.
type renderer struct {
	view
	rec *runregistry.Record
	// id is "<run_id>." and room for a number; hint is written once, in the
	// first frame's block.
	id     []byte
	prefix int
	hint   string
	links  links
	parsed frame.Frame
	out    []byte
}

func newRenderer(v view, rec *runregistry.Record, l links) *renderer {
	r := &renderer{view: v, rec: rec, links: l}
	r.id = append(append(r.id, rec.ID...), '.')
	r.prefix = len(r.id)
	return r
}

// cursor returns the text form of a position, valid until the next call.
func (r *renderer) cursor(seq runregistry.Seq) []byte {
	r.id = strconv.AppendUint(r.id[:r.prefix], uint64(seq), 10)
	return r.id
}

// frames renders a page and returns its bytes, valid until the next call.
func (r *renderer) frames(page []runregistry.Frame) []byte {
	r.out = r.out[:0]
	if cap(r.out) > maxBatchBuffer {
		r.out = nil
	}
	for i := range page {
		r.frame(&page[i])
	}
	return r.out
}

func (r *renderer) frame(f *runregistry.Frame) {
	switch {
	case r.form == formEnvelope:
		r.out = appendEnvelope(r.out, r.rec, f, r.dialect)
	case r.form == formOwn:
		r.out = append(r.out, f.Data...)
	case r.rec.Format != runregistry.FormatSSE:
		r.line(f)
	case r.ids:
		r.putHint()
		r.out = frame.AppendID(r.out, r.clean(f.Data), r.cursor(f.Seq))
	default:
		r.out = append(r.out, f.Data...)
	}
}

// clean returns a stored frame without an id: runs of dialects that keep
// upstream's ids are stored with them.
func (r *renderer) clean(stored []byte) []byte {
	if r.dialect.Wire.IDs {
		return stored
	}
	frame.Parse(frame.SSE, stored, &r.parsed)
	return r.parsed.Clean
}

// line shows a line of a line run as an event.
func (r *renderer) line(f *runregistry.Frame) {
	frame.Parse(frame.Lines, f.Data, &r.parsed)
	r.event(f.Seq, "", r.parsed.Data)
}

// event renders an event of ours with a number.
func (r *renderer) event(seq runregistry.Seq, name string, data []byte) {
	r.putHint()
	r.out = frame.AppendID(r.out, frame.AppendEvent(nil, name, data), r.cursor(seq))
}

// putHint writes the retry hint. A block of its own would be an empty event
// for some clients, so it stands at the head of the first block.
func (r *renderer) putHint() {
	r.out = append(r.out, r.hint...)
	r.hint = ""
}
