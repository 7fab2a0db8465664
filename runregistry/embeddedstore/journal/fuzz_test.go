package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// sample is a whole log.
func sample(texts ...string) []byte {
	h := header{generation: 1, salt: [4]byte{1, 2, 3, 4}}
	b := h.bytes()
	for _, text := range texts {
		at := len(b)
		b = append(append(b, make([]byte, prefixSize)...), text...)
		frame(b[at:], h.seed())
	}
	return b
}

// scan reads everything that makes sense.
func scan(b []byte) (records [][]byte, end int64, err error) {
	s, err := newScanner(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, 0, err
	}
	for {
		record, err := s.next()
		if err != nil {
			return records, s.offset, err
		}
		records = append(records, bytes.Clone(record))
	}
}

// The law of the reader: what it gives out, written again, is what it read; and
// it stops at the end of the file or where no whole record is.
func FuzzReadingIsTheInverseOfWriting(f *testing.F) {
	f.Add(sample())
	f.Add(sample("one", "two", "three"))
	f.Add(sample("one", "two")[:headerSize+9])
	f.Add(append(sample("one"), make([]byte, 40)...))
	f.Add(append(sample("one"), 0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, end, err := scan(b)
		switch {
		case errors.Is(err, errHeader) || errors.Is(err, errVersion):
			if records != nil || end != 0 {
				t.Fatalf("got %d records of a file without a header", len(records))
			}
			return
		case errors.Is(err, io.EOF) != (end == int64(len(b))):
			t.Fatalf("got error %v at %d of %d", err, end, len(b))
		case !errors.Is(err, io.EOF) && !errors.Is(err, errRecord):
			t.Fatalf("got error %v", err)
		}
		h, err := parseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		again := h.bytes()
		for _, record := range records {
			at := len(again)
			again = append(append(again, make([]byte, prefixSize)...), record...)
			frame(again[at:], h.seed())
		}
		if !bytes.Equal(again, b[:end]) {
			t.Errorf("got %x from what was read, want %x", again, b[:end])
		}
	})
}

// Whatever becomes of one byte, the records before it are read, and none that
// was not written.
func FuzzOneWrongByteLosesNothingBeforeIt(f *testing.F) {
	f.Add("one", "two", "three", uint16(50), byte(1))
	f.Add("", "a", "", uint16(0), byte(0x80))
	f.Fuzz(func(t *testing.T, one, two, three string, at uint16, flip byte) {
		texts := []string{one + "1", two + "2", three + "3"}
		b := sample(texts...)
		where := headerSize + int(at)%(len(b)-headerSize)
		b[where] ^= flip | 1
		records, end, err := scan(b)
		if !errors.Is(err, errRecord) || end > int64(where) {
			t.Fatalf("got error %v at %d, want one at or before %d", err, end, where)
		}
		for i, record := range records {
			if string(record) != texts[i] {
				t.Errorf("got record %q, want %q", record, texts[i])
			}
		}
	})
}
