package journal

import (
	"errors"
	"fmt"
)

// Outcomes that a caller branches on.
var (
	// ErrLocked means that another process has the directory.
	ErrLocked = errors.New("journal is locked by another process")
	// ErrFull means that the disk has no room for what is new.
	ErrFull = errors.New("disk is full")
	// ErrSick means that the disk failed to keep something that it had taken. A
	// rewrite cures it.
	ErrSick = errors.New("disk failed to sync")
	// ErrClosed means that the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// DamageError means that a file does not say what was written into it, at a
// place where no crash can be the reason. Nothing was changed.
type DamageError struct {
	File   string
	Offset int64
	Err    error // what is wrong there
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d (%v): move its directory away to go on without it", e.File, e.Offset, e.Err)
}

// Unwrap returns what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }
