package journal

import (
	"errors"
	"os"
	"syscall"
)

// Errors of Windows that package syscall has no name for.
const (
	errSharingViolation = syscall.Errno(32)
	errHandleDiskFull   = syscall.Errno(39)
	errDiskFull         = syscall.Errno(112)
)

// lock takes a file for this process: nobody else may open it meanwhile.
func lock(name string) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	const access, share = syscall.GENERIC_READ | syscall.GENERIC_WRITE, 0
	h, err := syscall.CreateFile(path, access, share, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharingViolation) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), name), nil
}

// full reports whether err says that the disk has no room.
func full(err error) bool { return errors.Is(err, errDiskFull) || errors.Is(err, errHandleDiskFull) }
