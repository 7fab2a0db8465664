package entry

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// ErrMalformed means that bytes are no entries.
var ErrMalformed = errors.New("entry is malformed")

// wire writes the fields of a body to the end of b, or reads them from its
// beginning.
type wire struct {
	b       []byte
	reading bool
	bad     bool // what was read made no sense
}

// spoil ends the reading: what follows is zero.
func (w *wire) spoil() { w.b, w.bad = nil, true }

func (w *wire) uint(v *uint64) {
	if !w.reading {
		w.b = binary.AppendUvarint(w.b, *v)
		return
	}
	*v = 0
	if len(w.b) == 0 {
		return // written before the field existed
	}
	n, size := binary.Uvarint(w.b)
	if size <= 0 {
		w.spoil()
		return
	}
	*v, w.b = n, w.b[size:]
}

func (w *wire) int(v *int64) {
	if !w.reading {
		w.b = binary.AppendVarint(w.b, *v)
		return
	}
	*v = 0
	if len(w.b) == 0 {
		return
	}
	n, size := binary.Varint(w.b)
	if size <= 0 {
		w.spoil()
		return
	}
	*v, w.b = n, w.b[size:]
}

// number is a count or an enumeration; it is never negative.
func number[T ~int | ~int64 | ~uint8 | ~uint64](w *wire, v *T) {
	n := uint64(*v)
	w.uint(&n)
	if w.reading { // what is written may be shared with readers
		*v = T(n)
	}
}

func (w *wire) bool(v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	w.uint(&n)
	if w.reading {
		*v = n != 0
	}
}

// time keeps a moment to the nanosecond, without its monotonic reading.
func (w *wire) time(v *time.Time) {
	n := int64(0)
	if !v.IsZero() {
		n = v.UnixNano()
	}
	w.int(&n)
	if w.reading {
		*v = time.Time{}
		if n != 0 {
			*v = time.Unix(0, n)
		}
	}
}

func (w *wire) duration(v *time.Duration) { w.int((*int64)(v)) }

// raw is bytes that are valid as long as the input.
func (w *wire) raw(v *[]byte) {
	n := uint64(len(*v))
	w.uint(&n)
	if !w.reading {
		w.b = append(w.b, *v...)
		return
	}
	if n > uint64(len(w.b)) {
		w.spoil()
		n = 0
	}
	*v, w.b = w.b[:n:n], w.b[n:]
}

func text[T ~string](w *wire, v *T) {
	n := uint64(len(*v))
	w.uint(&n)
	if !w.reading {
		w.b = append(w.b, *v...)
		return
	}
	if n > uint64(len(w.b)) {
		w.spoil()
		n = 0
	}
	*v, w.b = T(w.b[:n]), w.b[n:]
}

// texts is a list; an empty one is nil.
func texts[T ~string](w *wire, v *[]T) {
	n := w.count(len(*v))
	if w.reading {
		*v = nil
	}
	for i := range n {
		if w.reading {
			*v = append(*v, "")
		}
		text(w, &(*v)[i])
	}
}

// count is the number of elements that follow, each of which takes a byte at
// least.
func (w *wire) count(have int) int {
	n := uint64(have)
	w.uint(&n)
	if w.reading && n > uint64(len(w.b)) {
		w.spoil()
		n = 0
	}
	return int(n)
}

// digest is empty or whole.
func (w *wire) digest(v *runregistry.Digest) {
	var b []byte
	if !w.reading && !v.IsZero() {
		b = v[:]
	}
	w.raw(&b)
	if !w.reading {
		return
	}
	*v = runregistry.Digest{}
	if len(b) != 0 && copy(v[:], b) != len(v) {
		w.spoil()
	}
}
