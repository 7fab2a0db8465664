//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lock takes a file for this process. The system gives it back when the
// process dies, however it does.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var flock error
	err = raw.Control(func(fd uintptr) { flock = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(flock, syscall.EWOULDBLOCK) {
		flock = ErrLocked
	}
	if err := errors.Join(err, flock); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// full reports whether err says that the disk has no room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
