package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is one event as a browser would dispatch it (HTML Standard, section
// 9.2.6).
type Event struct {
	Name string // "message" when the block names none
	Data string
	ID   string // the last event id, which an event without id inherits
	// Own tells that the block itself carried an id field.
	Own bool
	// At is when the event was read to its end.
	At time.Time
}

// Comment is a comment line.
type Comment struct {
	Text string // what follows the colon
	At   time.Time
}

// EventReader reads an event stream by the rules of the HTML Standard and
// keeps what it read.
type EventReader struct {
	// Comments are the comment lines so far, wherever they stood.
	Comments []Comment
	// Retries are the values of the retry fields so far.
	Retries []string
	// Quiet forgets the raw bytes, for streams too large to keep.
	Quiet bool

	src     *bufio.Reader
	raw     bytes.Buffer
	started bool
	skipLF  bool // the line feed after a carriage return belongs to its line
	lastID  string
}

// NewEventReader returns a reader of r.
func NewEventReader(r io.Reader) *EventReader {
	return &EventReader{src: bufio.NewReaderSize(r, 32<<10)}
}

// Raw returns the bytes of all lines read so far.
func (e *EventReader) Raw() []byte { return e.raw.Bytes() }

// Next returns the next event. At the end of the stream it returns [io.EOF]
// when the body ended properly, and drops an unfinished block, as the standard
// says.
func (e *EventReader) Next() (Event, error) {
	var b block
	for {
		line, err := e.line()
		if err != nil {
			return Event{}, err
		}
		if line != "" {
			e.field(&b, line)
			continue
		}
		if b.hasData {
			return e.dispatch(&b), nil
		}
		b = block{}
	}
}

// All reads to the end of the stream.
func (e *EventReader) All() ([]Event, error) {
	var all []Event
	for {
		ev, err := e.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
}

// block collects the fields up to a blank line.
type block struct {
	name    string
	data    []byte
	hasData bool
	hasID   bool
}

func (e *EventReader) dispatch(b *block) Event {
	ev := Event{Name: b.name, Data: string(b.data[:len(b.data)-1]), ID: e.lastID, Own: b.hasID, At: time.Now()}
	if ev.Name == "" {
		ev.Name = "message"
	}
	return ev
}

func (e *EventReader) field(b *block, line string) {
	name, value, _ := strings.Cut(line, ":")
	if name == "" {
		e.Comments = append(e.Comments, Comment{Text: value, At: time.Now()})
		return
	}
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		b.name = value
	case "data":
		b.data = append(append(b.data, value...), '\n')
		b.hasData = true
	case "id":
		if !strings.Contains(value, "\x00") {
			e.lastID, b.hasID = value, true
		}
	case "retry":
		if _, err := strconv.ParseUint(value, 10, 63); err == nil {
			e.Retries = append(e.Retries, value)
		}
	}
}

// line returns the next line without its end: CR, LF or CRLF. A line feed that
// follows a carriage return is taken off with the next read, so that a line is
// known as soon as its carriage return is.
func (e *EventReader) line() (string, error) {
	var line []byte
	for {
		chunk, end, err := e.upToLineEnd()
		if err != nil {
			return "", err
		}
		if line == nil {
			line = chunk // most lines come in one chunk
		} else {
			line = append(line, chunk...)
		}
		if end {
			return e.decode(line), nil
		}
	}
}

// upToLineEnd consumes buffered bytes up to the next line end, if there is one
// among them.
func (e *EventReader) upToLineEnd() (chunk []byte, end bool, err error) {
	if _, err := e.src.Peek(1); err != nil {
		return nil, false, err
	}
	have, _ := e.src.Peek(e.src.Buffered()) // never more than is there
	if e.skipLF && have[0] == '\n' {
		e.skipLF = false
		e.take(have[:1])
		return nil, false, nil
	}
	e.skipLF = false
	i := lineEnd(have)
	if i < 0 {
		chunk = bytes.Clone(have)
		e.take(have)
		return chunk, false, nil
	}
	e.skipLF = have[i] == '\r'
	chunk = bytes.Clone(have[:i])
	e.take(have[:i+1])
	return chunk, true, nil
}

// lineEnd is the offset of the first CR or LF, or -1.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (e *EventReader) take(b []byte) {
	if !e.Quiet {
		e.raw.Write(b)
	}
	_, _ = e.src.Discard(len(b)) // b was peeked
}

// decode is UTF-8 decode: one byte order mark at the very start is dropped,
// and each maximal invalid part becomes U+FFFD.
func (e *EventReader) decode(line []byte) string {
	if !e.started {
		e.started = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if utf8.Valid(line) {
		return string(line)
	}
	var b strings.Builder
	for len(line) > 0 {
		n := validPrefix(line)
		b.Write(line[:n])
		if line = line[n:]; len(line) > 0 {
			b.WriteRune(utf8.RuneError)
			line = line[invalidPrefix(line):]
		}
	}
	return b.String()
}

func validPrefix(p []byte) int {
	n := 0
	for n < len(p) {
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}

// invalidPrefix is the length of the longest beginning of a character that is
// not one, at least 1 (Encoding Standard, "UTF-8 decoder").
func invalidPrefix(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n]) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}
