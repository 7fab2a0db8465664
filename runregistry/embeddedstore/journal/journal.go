package journal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// Position is a point in the life of an open journal: the number of bytes that
// were appended since it was opened. Zero is before everything.
type Position int64

// Class says what an append is for.
type Class uint8

// The classes. New is refused when the disk is full or does not sync; Running
// may spend the reserve.
const (
	New Class = iota + 1
	Running
)

// Options are the settings of a journal.
type Options struct {
	// Dir is made if it does not exist.
	Dir string
	// Reserve is how many bytes of the disk are kept for what runs when it is
	// full; 0 keeps none.
	Reserve int64
	// Create makes files; nil is the operating system's.
	Create Create
}

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	dir     string
	create  Create
	reserve int64
	locked  *os.File

	size atomic.Int64 // of all numbered files

	rewriting sync.Mutex // one rewrite at a time; taken first

	syncing sync.Mutex // guards everything below; taken before mu
	synced  Position
	older   []numbered // files before the current log

	mu       sync.Mutex // guards everything below
	log      File
	current  numbered
	seed     uint32
	end      int64 // of the log
	written  Position
	buf      []byte
	reserved bool
	sick     error
	closed   bool
}

// maxBuffer is how much memory the journal keeps between two appends.
const maxBuffer = 256 << 10

var errPayload = errors.New("payload has no size that a record can have")

// Append writes one record, which fill appends to the slice it is given and
// returns. The record is whole in the file when Append returns, or not at all.
// Errors: [ErrFull], [ErrSick], [ErrClosed], and those of the disk.
func (j *Journal) Append(c Class, fill func([]byte) []byte) (Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.acceptsLocked(c); err != nil {
		return 0, err
	}
	var prefix [prefixSize]byte
	j.buf = fill(append(j.buf[:0], prefix[:]...))
	if !frame(j.buf, j.seed) {
		return 0, errPayload
	}
	if err := j.writeLocked(c); err != nil {
		return 0, fmt.Errorf("writing record: %w", err)
	}
	n := int64(len(j.buf))
	j.end += n
	j.written += Position(n)
	j.size.Add(n)
	if cap(j.buf) > maxBuffer {
		j.buf = nil
	}
	return j.written, nil
}

func (j *Journal) acceptsLocked(c Class) error {
	switch {
	case j.closed:
		return ErrClosed
	case c == New && !j.reserved:
		return ErrFull
	case c == New && j.sick != nil:
		return fmt.Errorf("%w: %w", ErrSick, j.sick)
	}
	return nil
}

// writeLocked writes the buffer to the end of the log.
func (j *Journal) writeLocked(c Class) error {
	_, err := j.log.WriteAt(j.buf, j.end)
	if full(err) && c == Running && j.spendLocked() {
		_, err = j.log.WriteAt(j.buf, j.end)
	}
	if err == nil {
		return nil
	}
	// What was written of it goes. If that fails too, the next record overwrites
	// it, and what remains behind that one is no whole record.
	cut := j.log.Truncate(j.end)
	if full(err) {
		return ErrFull
	}
	return errors.Join(err, cut)
}

// Sync returns when everything that was appended up to a position is on stable
// storage. Whoever comes while another caller syncs is served by the next sync,
// together with all others who wait.
func (j *Journal) Sync(p Position) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if p <= j.synced {
		return nil
	}
	return j.flushSyncing()
}

// flushSyncing syncs what was written so far; j.syncing must be held. After a
// failure the system may have dropped what it could not write, and a later
// success would say nothing about that: the log stays sick.
func (j *Journal) flushSyncing() error {
	j.mu.Lock()
	log, upto, sick, closed := j.log, j.written, j.sick, j.closed
	j.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if sick == nil {
		if sick = log.Sync(); sick == nil {
			j.synced = upto
			return nil
		}
		j.mu.Lock()
		j.sick = sick
		j.mu.Unlock()
	}
	return fmt.Errorf("%w: %w", ErrSick, sick)
}

// Size returns how many bytes the files have, the reserve not counted.
func (j *Journal) Size() int64 { return j.size.Load() }

// Ailing reports what keeps the journal from taking what is new: [ErrFull] or
// [ErrSick], or nil.
func (j *Journal) Ailing() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.sick != nil:
		return fmt.Errorf("%w: %w", ErrSick, j.sick)
	case !j.reserved:
		return ErrFull
	}
	return nil
}

// Close syncs the log and gives the directory to whoever waits for it. It may
// be called again.
func (j *Journal) Close() error {
	j.rewriting.Lock()
	defer j.rewriting.Unlock()
	j.syncing.Lock()
	defer j.syncing.Unlock()
	err := j.flushSyncing()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	return errors.Join(err, j.log.Close(), j.locked.Close())
}
