package entry

import (
	"encoding/binary"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// kind tells entries apart.
type kind byte

// The kinds. A number once given keeps its meaning.
const (
	kindStart kind = iota + 1
	kindRecord
	kindTies
	kindSnapshot
	kindFrames
	kindDelivery
	kindGone
	kindKey
)

// prefixSize is kind and length.
const prefixSize = 5

// begin opens an entry at the end of dst.
func begin(dst []byte, k kind) wire { return wire{b: append(dst, byte(k), 0, 0, 0, 0)} }

// end closes the entry that began at an offset.
func (w *wire) end(at int) []byte {
	binary.LittleEndian.PutUint32(w.b[at+1:], uint32(len(w.b)-at-prefixSize))
	return w.b
}

// Run is the number of a run.
type Run uint64

// Ties are what a run holds among the claims once it has ended.
type Ties struct {
	// Keyed tells that the run answers for its idempotency key.
	Keyed bool
	// Dialogue is the number of the conversation; 0 without one.
	Dialogue uint64
}

// Start is everything about a run but its snapshot and its frames.
type Start struct {
	Run    Run
	Listed uint64 // its number in the list of its subject
	Key    runregistry.Digest
	Echo   runregistry.Digest
	Limits runregistry.LogLimits
	Ties
	Record runregistry.Record
}

func (w *wire) start(s *Start) {
	number(w, &s.Run)
	number(w, &s.Listed)
	w.digest(&s.Key)
	w.digest(&s.Echo)
	number(w, &s.Limits.Bytes)
	number(w, &s.Limits.Frames)
	w.ties(&s.Ties)
	w.record(&s.Record)
}

func (w *wire) ties(t *Ties) {
	w.bool(&t.Keyed)
	number(w, &t.Dialogue)
}

// AppendStart tells a run from its beginning. Whatever was told about it before
// is forgotten.
func AppendStart(dst []byte, s *Start) []byte {
	w := begin(dst, kindStart)
	w.start(s)
	return w.end(len(dst))
}

// AppendRecord tells how the record of a run is now.
func AppendRecord(dst []byte, r Run, rec *runregistry.Record) []byte {
	w := begin(dst, kindRecord)
	number(&w, &r)
	w.record(rec)
	return w.end(len(dst))
}

// AppendTies tells what a run is tied to now.
func AppendTies(dst []byte, r Run, t Ties) []byte {
	w := begin(dst, kindTies)
	number(&w, &r)
	w.ties(&t)
	return w.end(len(dst))
}

// AppendSnapshot tells the folded answer of a run.
func AppendSnapshot(dst []byte, r Run, snapshot []byte) []byte {
	w := begin(dst, kindSnapshot)
	number(&w, &r)
	w.raw(&snapshot)
	return w.end(len(dst))
}

// AppendDelivery tells how the deliveries of a run stand.
func AppendDelivery(dst []byte, r Run, d runregistry.Delivery) []byte {
	w := begin(dst, kindDelivery)
	number(&w, &r)
	w.delivery(&d)
	return w.end(len(dst))
}

// AppendGone tells that a run was deleted.
func AppendGone(dst []byte, r Run) []byte {
	w := begin(dst, kindGone)
	number(&w, &r)
	return w.end(len(dst))
}

// Key is the reserved idempotency key of a deleted run.
type Key struct {
	Subject runregistry.Subject
	Route   string
	Digest  runregistry.Digest
	Until   time.Time
}

func (w *wire) key(k *Key) {
	w.subject(&k.Subject)
	text(w, &k.Route)
	w.digest(&k.Digest)
	w.time(&k.Until)
}

// AppendKey tells that a key is reserved.
func AppendKey(dst []byte, k *Key) []byte {
	w := begin(dst, kindKey)
	w.key(k)
	return w.end(len(dst))
}

// AppendFrames tells the frames of a run from a number on, all of which came at
// one time.
func AppendFrames(dst []byte, r Run, first runregistry.Seq, at time.Time, frames [][]byte) []byte {
	w := beginFrames(dst, r, first, len(frames))
	since := at.UnixNano()
	for _, f := range frames {
		w.int(&since)
		w.raw(&f)
		since = 0
	}
	return w.end(len(dst))
}

// AppendPage tells neighbouring frames of a run. There must be one at least.
func AppendPage(dst []byte, r Run, frames []runregistry.Frame) []byte {
	w := beginFrames(dst, r, frames[0].Seq, len(frames))
	last := int64(0)
	for _, f := range frames {
		at := f.At.UnixNano()
		since := at - last
		w.int(&since)
		w.raw(&f.Data)
		last = at
	}
	return w.end(len(dst))
}

func beginFrames(dst []byte, r Run, first runregistry.Seq, count int) wire {
	w := begin(dst, kindFrames)
	number(&w, &r)
	number(&w, &first)
	w.count(count)
	return w
}
