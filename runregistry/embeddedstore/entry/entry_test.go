package entry

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// heard writes down what entries tell.
type heard struct{ said []any }

// about is what was said about a run.
type about[T any] struct {
	run  Run
	what T
}

func (h *heard) Start(s *Start) { h.said = append(h.said, *s) }
func (h *heard) Record(r Run, rec *runregistry.Record) {
	h.said = append(h.said, about[runregistry.Record]{r, *rec})
}
func (h *heard) Ties(r Run, t Ties)       { h.said = append(h.said, about[Ties]{r, t}) }
func (h *heard) Snapshot(r Run, b []byte) { h.said = append(h.said, about[string]{r, string(b)}) }
func (h *heard) Frame(r Run, f runregistry.Frame) {
	h.said = append(h.said, about[runregistry.Frame]{r, f})
}
func (h *heard) Frames(r Run) { h.said = append(h.said, about[bool]{r, true}) }
func (h *heard) Delivery(r Run, d runregistry.Delivery) {
	h.said = append(h.said, about[runregistry.Delivery]{r, d})
}
func (h *heard) Gone(r Run) { h.said = append(h.said, r) }
func (h *heard) Key(k *Key) { h.said = append(h.said, *k) }

func hear(t *testing.T, b []byte) []any {
	t.Helper()
	var h heard
	if err := Read(b, &h); err != nil {
		t.Fatalf("got error %v from %x", err, b)
	}
	return h.said
}

// fill sets everything in v to something, no two alike.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, *n)))
			return
		}
		for _, field := range v.Fields() {
			fill(t, field, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d \xff\x00", *n)) // not all names are UTF-8
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 7))
	case reflect.Uint64:
		v.SetUint(uint64(*n) << 40)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n << 20)
	case reflect.Interface: // claims, which a store that loses no run has no need of
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, n)
			fill(t, value, n)
			v.SetMapIndex(key, value)
		}
	default:
		t.Fatalf("got a field of kind %v, which no entry has", v.Kind())
	}
}

// full returns a value in which nothing is zero.
func full[T any](t *testing.T) (v T) {
	t.Helper()
	n := int64(0)
	fill(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

// fullRecord is a record without what has entries of its own.
func fullRecord(t *testing.T) runregistry.Record {
	t.Helper()
	rec := full[runregistry.Record](t)
	rec.Snapshot, rec.FirstSeq = nil, 0
	return rec
}

// A field that is added to a record and forgotten here is lost at a restart.
func TestEveryFieldComesBack(t *testing.T) {
	start := full[Start](t)
	start.Record = fullRecord(t)
	rec, ties, delivery, key := fullRecord(t), full[Ties](t), full[runregistry.Delivery](t), full[Key](t)
	var b []byte
	b = AppendStart(b, &start)
	b = AppendRecord(b, 2, &rec)
	b = AppendTies(b, 3, ties)
	b = AppendSnapshot(b, 4, []byte("snapshot"))
	b = AppendDelivery(b, 5, delivery)
	b = AppendGone(b, 1<<63)
	b = AppendKey(b, &key)
	want := []any{
		start,
		about[runregistry.Record]{2, rec},
		about[Ties]{3, ties},
		about[string]{4, "snapshot"},
		about[runregistry.Delivery]{5, delivery},
		Run(1 << 63), key,
	}
	if got := hear(t, b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestNothingComesBackAsNothing(t *testing.T) {
	got := hear(t, AppendKey(AppendRecord(AppendStart(nil, new(Start)), 0, new(runregistry.Record)), new(Key)))
	if want := []any{Start{}, about[runregistry.Record]{}, Key{}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestFramesComeBackWithTheirNumbersAndTimes(t *testing.T) {
	at := time.Unix(1_700_000_000, 123_456_789)
	frames := []runregistry.Frame{{Seq: 7, At: at, Data: []byte("a")}, {Seq: 8, At: at, Data: []byte{}}, {Seq: 9, At: at, Data: []byte("ccc")}}
	b := AppendFrames(nil, 3, 7, at, [][]byte{[]byte("a"), {}, []byte("ccc")})
	var want []any
	for _, f := range frames {
		want = append(want, about[runregistry.Frame]{3, f})
	}
	want = append(want, about[bool]{3, true})
	if got := hear(t, b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}

	frames[1].At, frames[2].At = at.Add(time.Hour), at.Add(-time.Millisecond) // clocks step
	want[1], want[2] = about[runregistry.Frame]{3, frames[1]}, about[runregistry.Frame]{3, frames[2]}
	if got := hear(t, AppendPage(nil, 3, frames)); !reflect.DeepEqual(got, want) {
		t.Errorf("page: got %+v\nwant %+v", got, want)
	}
}

// An older entry lacks the last fields, a newer one has more.
func TestFieldsMayBeAddedAtTheEnd(t *testing.T) {
	key := full[Key](t)
	b := AppendKey(nil, &key)
	w := begin(nil, kindKey)
	w.subject(&key.Subject)
	text(&w, &key.Route)
	older := Key{Subject: key.Subject, Route: key.Route}
	if got := hear(t, w.end(0)); !reflect.DeepEqual(got, []any{older}) {
		t.Errorf("older: got %+v, want %+v", got, older)
	}
	newer := wire{b: append(slices.Clip(b), "more"...)}
	if got := hear(t, newer.end(0)); !reflect.DeepEqual(got, []any{key}) {
		t.Errorf("newer: got %+v, want %+v", got, key)
	}
}

func TestAnUnknownKindIsReported(t *testing.T) {
	for _, k := range []kind{0, kindKey + 1, 255} {
		w := begin(nil, k)
		if err := Read(w.end(0), new(heard)); !errors.Is(err, ErrMalformed) {
			t.Errorf("kind %d: got error %v, want %v", k, err, ErrMalformed)
		}
	}
}

func TestWhatIsCutShortIsReported(t *testing.T) {
	b := AppendFrames(AppendGone(nil, 9), 3, 7, time.Unix(1, 0), [][]byte{[]byte("a")})
	gone := len(AppendGone(nil, 9))
	for end := range b {
		err := Read(b[:end], new(heard))
		if whole := end == 0 || end == gone; whole != (err == nil) {
			t.Errorf("%d bytes: got error %v", end, err)
		}
	}
	for _, body := range []string{
		"\x80",                 // a number without an end
		"\x01\xff\x01abc",      // a text that is longer than its entry
		"\x01\x00\x00\x05abcd", // a digest of 4 bytes
	} {
		w := begin(nil, kindKey)
		w.b = append(w.b, body...)
		if err := Read(w.end(0), new(heard)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got error %v, want %v", body, err, ErrMalformed)
		}
	}
}

func TestWritingFramesDoesNotAllocate(t *testing.T) {
	frames := [][]byte{make([]byte, 120), make([]byte, 30)}
	b := make([]byte, 0, 1000)
	now := time.Now()
	if allocs := testing.AllocsPerRun(100, func() { b = AppendFrames(b[:0], 12, 300, now, frames) }); allocs != 0 {
		t.Errorf("got %.1f allocations, want none", allocs)
	}
}
