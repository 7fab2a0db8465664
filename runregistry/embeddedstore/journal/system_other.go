//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package journal

import (
	"errors"
	"fmt"
	"os"
)

// lock fails: without a lock two processes would write one journal.
func lock(name string) (*os.File, error) {
	return nil, fmt.Errorf("locking %s: %w", name, errors.ErrUnsupported)
}

func full(error) bool { return false }
