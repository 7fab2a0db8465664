package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Opened says what opening found.
type Opened struct {
	Files   int
	Records int
	// Cut is how many bytes at the end were no whole record.
	Cut int64
}

// Open takes the directory for this process and replays what is in it: replay
// gets each record in order, valid until it returns; its error ends the
// opening. Errors: [ErrLocked], [*DamageError], and those of the disk.
func Open(o Options, replay func(record []byte) error) (*Journal, Opened, error) {
	var found Opened
	if o.Create == nil {
		o.Create = create
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, found, fmt.Errorf("making directory: %w", err)
	}
	locked, err := lock(filepath.Join(o.Dir, lockName))
	if err != nil {
		return nil, found, fmt.Errorf("locking directory: %w", err)
	}
	j := &Journal{dir: o.Dir, create: o.Create, reserve: o.Reserve, locked: locked}
	if err = j.replay(replay, &found); err == nil {
		err = j.begin()
	}
	if err != nil {
		return nil, found, errors.Join(err, locked.Close())
	}
	return j, found, nil
}

// replay reads all files that count, and makes the newest end with a whole
// record that is on stable storage.
func (j *Journal) replay(replay func([]byte) error, found *Opened) error {
	files, err := list(j.dir)
	if err != nil {
		return err
	}
	if files, err = dropUnborn(files); err != nil {
		return err
	}
	files, obsolete := current(files)
	if err := whole(j.dir, files); err != nil {
		return err
	}
	for i, f := range files {
		end, err := replayFile(f, replay, found)
		torn := errors.Is(err, errRecord) && !f.base
		switch {
		case err == nil:
		case torn && i == len(files)-1:
			found.Cut = f.size - end
			files[i].size = end
		case torn && failed(files[i+1]):
		default:
			return &DamageError{File: f.name, Offset: end, Err: err}
		}
		j.size.Add(files[i].size)
	}
	j.older, found.Files = files, len(files)
	if n := len(files); n > 0 {
		if err := settle(files[n-1]); err != nil {
			return err
		}
	}
	return remove(obsolete)
}

// dropUnborn removes the newest log if its creator died before it had a
// header.
func dropUnborn(files []numbered) ([]numbered, error) {
	n := len(files) - 1
	if n < 0 || files[n].base || files[n].size > headerSize {
		return files, nil
	}
	if _, err := replayFile(files[n], nil, nil); !errors.Is(err, errHeader) {
		return files, err
	}
	return files[:n], remove(files[n:])
}

// whole checks that no file is missing between the first and the last.
func whole(dir string, files []numbered) error {
	next := uint64(1)
	for i, f := range files {
		if f.base {
			next = f.generation
			if i == len(files)-1 {
				return &DamageError{File: fileName(dir, next, logSuffix), Err: errMissing}
			}
			continue
		}
		if f.generation != next {
			return &DamageError{File: fileName(dir, next, logSuffix), Err: errMissing}
		}
		next++
	}
	return nil
}

// replayFile hands out the records of one file and returns where the last
// whole one ends.
func replayFile(f numbered, replay func([]byte) error, found *Opened) (int64, error) {
	file, err := os.Open(filepath.Clean(f.name))
	if err != nil {
		return 0, fmt.Errorf("opening: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	s, err := newScanner(file, f.size)
	switch {
	case err != nil:
		return 0, err
	case s.generation != f.generation:
		return 0, errHeader
	}
	for {
		record, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return s.offset, nil
		case err != nil:
			return s.offset, err
		}
		if err := replay(record); err != nil {
			return s.offset, fmt.Errorf("replaying: %w", err)
		}
		found.Records++
	}
}

// failed reports whether a log was begun because the one before it could not
// be synced.
func failed(f numbered) bool {
	file, err := os.Open(filepath.Clean(f.name))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was only read
	s, err := newScanner(file, f.size)
	return err == nil && s.flags&afterFailure != 0
}

// settle cuts a file to the size it counts with and makes it durable.
func settle(f numbered) error {
	file, err := os.OpenFile(filepath.Clean(f.name), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cutting the end: %w", err)
	}
	err = errors.Join(file.Truncate(f.size), file.Sync(), file.Close())
	if err != nil {
		return fmt.Errorf("cutting the end: %w", err)
	}
	return nil
}

// begin starts the log of this process.
func (j *Journal) begin() error {
	g := uint64(1)
	if n := len(j.older); n > 0 {
		g = j.older[n-1].generation + 1
	}
	_ = j.hold() // without it what is new is refused, and Mend tries again
	n, log, h, err := j.newLog(g, 0)
	if full(err) && j.spendLocked() {
		n, log, h, err = j.newLog(g, 0)
	}
	if err != nil {
		return err
	}
	j.switchLocked(n, log, h)
	return syncDir(j.dir)
}

// newLog makes the log of a generation, which has its header on stable storage.
func (j *Journal) newLog(g, flags uint64) (numbered, File, header, error) {
	n := numbered{name: fileName(j.dir, g, logSuffix), generation: g, size: headerSize}
	h := newHeader(g, flags)
	log, err := j.create(n.name)
	if err != nil {
		return n, nil, h, fmt.Errorf("beginning a log: %w", err)
	}
	_, err = log.WriteAt(h.bytes(), 0)
	if err == nil {
		err = log.Sync()
	}
	if err != nil {
		return n, nil, h, fmt.Errorf("beginning a log: %w", errors.Join(err, log.Close(), os.Remove(n.name)))
	}
	return n, log, h, nil
}

// switchLocked makes log the one that is appended to.
func (j *Journal) switchLocked(n numbered, log File, h header) {
	j.current, j.log, j.seed, j.end = n, log, h.seed(), headerSize
	j.size.Add(headerSize)
}
