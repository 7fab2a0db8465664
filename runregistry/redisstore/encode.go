package redisstore

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// stored is what the record field of a run holds. What changes with every
// frame, and what scripts look at, stands in fields of its own.
type stored struct {
	Subject      runregistry.Subject          `json:"sub"`
	Scope        runregistry.Scope            `json:"sc"`
	Conversation runregistry.ConversationID   `json:"cv,omitempty"`
	Aliases      []runregistry.ConversationID `json:"al,omitempty"`
	Named        bool                         `json:"nm,omitempty"`
	Route        string                       `json:"rt"`
	Attempt      int                          `json:"at"`
	Lined        bool                         `json:"ln,omitempty"`
	Previous     runregistry.RunID            `json:"pv,omitempty"`
	Reason       runregistry.Reason           `json:"re,omitempty"`
	Effect       uint8                        `json:"ef"`
	Release      string                       `json:"rl,omitempty"`
	Resource     string                       `json:"rs,omitempty"`
	Model        string                       `json:"mo,omitempty"`
	Dialect      string                       `json:"di,omitempty"`
	Format       runregistry.Format           `json:"fo"`
	Created      int64                        `json:"ca"`
	Dispatched   int64                        `json:"da,omitempty"`
	Activity     int64                        `json:"aa,omitempty"`
	Ended        int64                        `json:"ea,omitempty"`
	Response     *runregistry.Response        `json:"rp,omitempty"`
	UpstreamID   string                       `json:"up,omitempty"`
	Origin       json.RawMessage              `json:"or,omitempty"`
	Position     string                       `json:"po,omitempty"` // of a restored run; appends have a field of their own
	Reattached   int                          `json:"ra,omitempty"`
	Ending       bool                         `json:"en,omitempty"`
	Cancel       *cancel                      `json:"cc,omitempty"`
	Usage        *runregistry.Usage           `json:"us,omitempty"`
	SnapshotSeq  runregistry.Seq              `json:"ss,omitempty"`
	Fingerprint  string                       `json:"fp"`
	Retention    runregistry.Retention        `json:"rn"`
	Limits       runregistry.LogLimits        `json:"li"`
	Key          string                       `json:"k,omitempty"`
	Echo         string                       `json:"e,omitempty"`
	Dialogue     string                       `json:"d,omitempty"`
	Holding      bool                         `json:"h,omitempty"`
}

type cancel struct {
	Version   int
	Requested int64
	Outcome   runregistry.Outcome
	Upstream  runregistry.Confirmation
}

// claims are what a run has beside its record.
type claims struct {
	key, echo runregistry.Digest
	dialogue  string // empty without a conversation
	holding   bool   // it has not given its conversation away
	limits    runregistry.LogLimits
}

// entry is a run as it was read: the record and what is needed to change it.
type entry struct {
	rec    runregistry.Record
	claims claims
	token  string // of its last change
	growth uint64 // the part of the revision that appends count
	turns  string // generation of the deliveries
	owner  runregistry.InstanceID
	asked  question // when it was read
}

func newToken() string { return rand.Text()[:16] }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func digestText(d runregistry.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

func parseDigest(text string) (d runregistry.Digest) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return d
}

// encode writes the record field.
func (e *entry) encode() (string, error) {
	r := &e.rec
	v := stored{
		Subject: r.Subject, Scope: r.Scope, Conversation: r.Conversation, Aliases: r.Aliases, Named: r.Named,
		Route: r.Route, Attempt: r.Attempt, Lined: r.Lined, Previous: r.Previous, Reason: r.Reason, Effect: uint8(r.Effect),
		Release: r.Release, Resource: r.Resource, Model: r.Model, Dialect: r.Dialect, Format: r.Format,
		Created: millis(r.CreatedAt), Dispatched: millis(r.DispatchedAt), Activity: millis(r.ActivityAt), Ended: millis(r.EndedAt),
		Response: r.Response, UpstreamID: r.UpstreamID, Ending: r.Ending, SnapshotSeq: r.SnapshotSeq,
		Origin: r.Origin, Position: r.Position, Reattached: r.Reattached,
		Fingerprint: digestText(r.Fingerprint), Retention: r.Retention, Limits: e.claims.limits,
		Key: digestText(e.claims.key), Echo: digestText(e.claims.echo), Dialogue: e.claims.dialogue, Holding: e.claims.holding,
	}
	if c := r.Cancel; c != (runregistry.Cancel{}) {
		v.Cancel = &cancel{c.Version, millis(c.RequestedAt), c.Outcome, c.Upstream}
	}
	if r.Usage != (runregistry.Usage{}) {
		v.Usage = &r.Usage
	}
	text, err := json.Marshal(&v)
	if err != nil {
		return "", fmt.Errorf("encoding record: %w", err)
	}
	return string(text), nil
}

// decode is the inverse of encode.
func (e *entry) decode(text string) error {
	var v stored
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("decoding record: %w", err)
	}
	r := &e.rec
	r.Subject, r.Scope, r.Conversation, r.Aliases, r.Named = v.Subject, v.Scope, v.Conversation, v.Aliases, v.Named
	r.Lined = v.Lined
	r.Route, r.Attempt, r.Previous, r.Reason, r.Effect = v.Route, v.Attempt, v.Previous, v.Reason, runregistry.Effect(v.Effect)
	r.Release, r.Resource, r.Model, r.Dialect, r.Format = v.Release, v.Resource, v.Model, v.Dialect, v.Format
	r.CreatedAt, r.DispatchedAt, r.ActivityAt, r.EndedAt = moment(v.Created), moment(v.Dispatched), moment(v.Activity), moment(v.Ended)
	r.Response, r.UpstreamID, r.Ending, r.SnapshotSeq = v.Response, v.UpstreamID, v.Ending, v.SnapshotSeq
	r.Origin, r.Position, r.Reattached = v.Origin, v.Position, v.Reattached
	r.Fingerprint, r.Retention = parseDigest(v.Fingerprint), v.Retention
	if c := v.Cancel; c != nil {
		r.Cancel = runregistry.Cancel{Version: c.Version, RequestedAt: moment(c.Requested), Outcome: c.Outcome, Upstream: c.Upstream}
	}
	if v.Usage != nil {
		r.Usage = *v.Usage
	}
	e.claims = claims{parseDigest(v.Key), parseDigest(v.Echo), v.Dialogue, v.Holding, v.Limits}
	return nil
}

// fields of a run's hash.
type fields map[string]string

func (f fields) number(name string) int64 {
	n, err := strconv.ParseInt(f[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parseEntry reads a run's hash as of a moment. It returns nil for a run that
// is not there or has expired.
func parseEntry(id runregistry.RunID, f fields, now time.Time) (*entry, error) {
	if f["w"] == "" {
		return nil, nil
	}
	e := &entry{token: f["w"], growth: uint64(f.number("g")), turns: f["dg"], owner: runregistry.InstanceID(f["o"])}
	if err := e.decode(f["b"]); err != nil {
		return nil, err
	}
	r := &e.rec
	r.ID, r.State, r.Epoch = id, runregistry.State(f.number("s")), runregistry.Epoch(f.number("e"))
	r.FirstSeq, r.LastSeq, r.FinalSeq = runregistry.Seq(f.number("lo")), runregistry.Seq(f.number("q")), runregistry.Seq(f.number("fs"))
	r.Bytes, r.FirstFrameAt = f.number("y"), moment(f.number("t1"))
	if active := moment(f.number("ta")); active.After(r.ActivityAt) {
		r.ActivityAt = active
	}
	r.FramesExpireAt, r.ExpiresAt = moment(f.number("xf")), moment(f.number("xr"))
	r.Revision = uint64(f.number("br")) + e.growth
	r.Delivery = runregistry.Delivery{
		Pending: int(f.number("dp")), Open: int(f.number("do")), Headers: f["dh"] == "1",
		BrokenEarly: f["de"] == "1", BrokenLate: f["dx"] == "1",
	}
	if po := f["po"]; po != "" {
		r.Position = po
	}
	if sn := f["sn"]; sn != "" {
		r.Snapshot = json.RawMessage(sn)
	}
	return e, e.age(now)
}

// age applies the clocks of an ended run.
func (e *entry) age(now time.Time) error {
	r := &e.rec
	if !r.State.Terminal() {
		return nil
	}
	if !now.Before(r.ExpiresAt) {
		return runregistry.ErrNoRun
	}
	if r.FirstSeq > 0 && !now.Before(r.FramesExpireAt) {
		r.FirstSeq = 0
		r.Revision++
	}
	return nil
}

// copied is the caller's own copy of the record.
func (e *entry) copied() *runregistry.Record {
	rec := e.rec
	return &rec
}

// next is a copy of the entry that may be changed.
func (e *entry) next() *entry {
	n := *e
	n.token = newToken()
	return &n
}

// change adds what take_change takes: how e becomes n.
func (p *params) change(e, n *entry) error {
	text, err := n.encode()
	if err != nil {
		return err
	}
	snapped := n.rec.SnapshotSeq != e.rec.SnapshotSeq || string(n.rec.Snapshot) != string(e.rec.Snapshot)
	p.arg(e.token, n.token, int(n.rec.State), n.rec.Revision-n.growth, text, flag(snapped))
	if snapped {
		p.arg([]byte(n.rec.Snapshot))
	} else {
		p.arg("")
	}
	return nil
}
