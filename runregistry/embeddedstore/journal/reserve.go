package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// hold takes the reserve, if it is not held yet, and remembers whether that
// worked.
func (j *Journal) hold() error {
	err := j.fillReserve()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reserved = err == nil
	return err
}

// Mend takes the reserve again after it was spent. It returns [ErrFull] while
// there is no room for it.
func (j *Journal) Mend() error {
	j.rewriting.Lock()
	defer j.rewriting.Unlock()
	j.mu.Lock()
	reserved, closed := j.reserved, j.closed
	j.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case reserved:
		return nil
	}
	return j.hold()
}

// fillReserve makes the reserve's file. Its bytes are random, because some file
// systems store zeros nowhere.
func (j *Journal) fillReserve() error {
	name := filepath.Join(j.dir, reserveName)
	if info, err := os.Stat(name); j.reserve == 0 || err == nil && info.Size() == j.reserve {
		return nil
	}
	f, err := j.create(name)
	if err != nil {
		return fmt.Errorf("taking the reserve: %w", err)
	}
	block := make([]byte, min(j.reserve, 1<<20))
	_, _ = rand.Read(block) // crypto/rand never fails
	for at := int64(0); at < j.reserve && err == nil; at += int64(len(block)) {
		_, err = f.WriteAt(block[:min(int64(len(block)), j.reserve-at)], at)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return nil
	}
	if full(err) {
		err = ErrFull
	}
	return fmt.Errorf("taking the reserve: %w", errors.Join(err, os.Remove(name)))
}

// spendLocked gives the reserve's room back to the disk. It reports whether
// there was any.
func (j *Journal) spendLocked() bool {
	if !j.reserved || j.reserve == 0 {
		return false
	}
	j.reserved = false
	return os.Remove(filepath.Join(j.dir, reserveName)) == nil
}
