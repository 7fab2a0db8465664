package entry

import (
	"encoding/binary"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Listener hears what entries tell, in their order. What it is given is its
// own, except for the data of frames and snapshots, which is valid until it
// returns.
type Listener interface {
	Start(s *Start)
	Record(r Run, rec *runregistry.Record)
	Ties(r Run, t Ties)
	Snapshot(r Run, snapshot []byte)
	Frame(r Run, f runregistry.Frame)
	// Frames follows the frames that were stored in one step.
	Frames(r Run)
	Delivery(r Run, d runregistry.Delivery)
	Gone(r Run)
	Key(k *Key)
}

// Read tells a listener the entries of one journal record. It returns
// [ErrMalformed] for bytes that are none.
func Read(record []byte, to Listener) error {
	for len(record) > 0 {
		if len(record) < prefixSize {
			return ErrMalformed
		}
		k, size := kind(record[0]), binary.LittleEndian.Uint32(record[1:])
		record = record[prefixSize:]
		if uint64(size) > uint64(len(record)) {
			return ErrMalformed
		}
		w := wire{b: record[:size:size], reading: true}
		record = record[size:]
		if !w.tell(k, to) || w.bad {
			return ErrMalformed
		}
	}
	return nil
}

// tell reads one entry. It reports whether it knows the kind.
func (w *wire) tell(k kind, to Listener) bool {
	switch k {
	case kindStart:
		s := new(Start)
		if w.start(s); !w.bad {
			to.Start(s)
		}
		return true
	case kindKey:
		key := new(Key)
		if w.key(key); !w.bad {
			to.Key(key)
		}
		return true
	case kindRecord, kindTies, kindSnapshot, kindFrames, kindDelivery, kindGone:
		var r Run
		number(w, &r)
		w.tellOf(r, k, to)
		return true
	default:
		return false
	}
}

// tellOf reads an entry about a run that was told before.
func (w *wire) tellOf(r Run, k kind, to Listener) {
	switch k {
	case kindRecord:
		rec := new(runregistry.Record)
		if w.record(rec); !w.bad {
			to.Record(r, rec)
		}
	case kindTies:
		var t Ties
		if w.ties(&t); !w.bad {
			to.Ties(r, t)
		}
	case kindSnapshot:
		var b []byte
		if w.raw(&b); !w.bad {
			to.Snapshot(r, b)
		}
	case kindFrames:
		w.tellFrames(r, to)
	case kindDelivery:
		var d runregistry.Delivery
		if w.delivery(&d); !w.bad {
			to.Delivery(r, d)
		}
	case kindGone:
		if !w.bad {
			to.Gone(r)
		}
	case kindStart, kindKey:
	}
}

func (w *wire) tellFrames(r Run, to Listener) {
	var f runregistry.Frame
	number(w, &f.Seq)
	at := int64(0)
	for range w.count(0) {
		var since int64
		w.int(&since)
		w.raw(&f.Data)
		if w.bad {
			return
		}
		at += since
		f.At = time.Unix(0, at)
		to.Frame(r, f)
		f.Seq++
	}
	if !w.bad {
		to.Frames(r)
	}
}
