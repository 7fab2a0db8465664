package journal

import (
	"errors"
	"fmt"
	"os"
)

// Rewrite begins a new log, has fill write everything that counts into a base
// file, and drops all older files. Until the base is whole they stay, so that a
// crash, or an error, loses nothing. Appends go on meanwhile.
//
// A caller whose appends hold a lock until they have applied what they wrote
// finds it applied when fill takes that lock: the new log is in use before fill
// is called.
func (j *Journal) Rewrite(fill func(*Writer) error) error {
	j.rewriting.Lock()
	defer j.rewriting.Unlock()
	s, err := j.switchLog()
	if err != nil {
		return fmt.Errorf("rewriting: %w", err)
	}
	base, err := j.writeBase(s.generation, fill)
	if err != nil {
		return fmt.Errorf("rewriting: %w", err)
	}
	if err := j.supersede(s, base); err != nil {
		return fmt.Errorf("rewriting: %w", err)
	}
	return nil
}

// turn is the moment at which a log followed another.
type turn struct {
	generation uint64 // of the new log
	at         Position
	cures      bool // the log before it is sick
}

// switchLog begins a new log. The old one is whole on stable storage before the
// new one gets its first record, except when it is sick: then the new log says
// so.
func (j *Journal) switchLog() (turn, error) {
	j.syncing.Lock()
	err := j.flushSyncing() // most of it, while appends go on
	next := j.current.generation + 1
	j.syncing.Unlock()
	flags := uint64(0)
	if errors.Is(err, ErrSick) {
		flags, err = afterFailure, nil
	}
	if err != nil {
		return turn{}, err
	}
	n, log, h, err := j.newLog(next, flags)
	if err != nil {
		return turn{}, err
	}
	t := turn{generation: next, cures: flags != 0}
	if err := j.follow(&t, n, log, h); err != nil {
		return t, errors.Join(err, log.Close(), os.Remove(n.name))
	}
	return t, syncDir(j.dir)
}

// follow syncs the rest of the old log and puts the new one in its place.
func (j *Journal) follow(t *turn, n numbered, log File, h header) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if !t.cures {
		if err := j.log.Sync(); err != nil {
			j.sick = err
			return fmt.Errorf("%w: %w", ErrSick, err)
		}
		j.synced = j.written
	}
	t.at = j.written
	old := j.current
	old.size = j.end
	j.older = append(j.older, old)
	_ = j.log.Close() // it was synced, or is known to be sick
	j.switchLocked(n, log, h)
	return nil
}

// writeBase writes the base of a generation.
func (j *Journal) writeBase(g uint64, fill func(*Writer) error) (numbered, error) {
	n := numbered{name: fileName(j.dir, g, baseSuffix), generation: g, base: true}
	draft := n.name + draftSuffix
	h := newHeader(g, 0)
	f, err := j.create(draft)
	if err != nil {
		return n, fmt.Errorf("writing base: %w", err)
	}
	w := &Writer{file: f, seed: h.seed(), buf: h.bytes()}
	if err = fill(w); err == nil {
		err = w.flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(draft, n.name)
	}
	if err != nil {
		if full(err) {
			err = ErrFull
		}
		return n, fmt.Errorf("writing base: %w", errors.Join(err, os.Remove(draft)))
	}
	n.size = w.end
	return n, syncDir(j.dir)
}

// supersede drops what the base has made obsolete.
func (j *Journal) supersede(t turn, base numbered) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	obsolete := j.older
	j.older = []numbered{base}
	j.synced = max(j.synced, t.at)
	j.mu.Lock()
	if t.cures {
		j.sick = nil
	}
	j.size.Store(base.size + j.end)
	j.mu.Unlock()
	return errors.Join(remove(obsolete), syncDir(j.dir))
}

// Writer writes the records of a base.
type Writer struct {
	file File
	seed uint32
	end  int64
	buf  []byte
}

// Write adds one record, which fill appends to the slice it is given and
// returns.
func (w *Writer) Write(fill func([]byte) []byte) error {
	start := len(w.buf)
	var prefix [prefixSize]byte
	w.buf = fill(append(w.buf, prefix[:]...))
	if !frame(w.buf[start:], w.seed) {
		return errPayload
	}
	if len(w.buf) < maxBuffer {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	n, err := w.file.WriteAt(w.buf, w.end)
	if err != nil {
		return fmt.Errorf("writing base: %w", err)
	}
	w.end += int64(n)
	w.buf = w.buf[:0]
	return nil
}
