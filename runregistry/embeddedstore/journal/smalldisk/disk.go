// Package smalldisk is a disk for tests of what happens when a disk is full or
// broken. A disk is a directory with room for so many bytes; what is written
// beyond that is cut off, as on a real one. Its syncs are counted, and remember
// how much of a file they cover: that is what a power cut leaves.
package smalldisk

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Disk makes files in a directory. Files that are removed give their room back.
type Disk struct {
	dir string

	mu    sync.Mutex // guards everything below
	room  int64      // bytes that may be used in all
	sync  error      // what syncing returns
	syncs int
	safe  []safe
}

// safe is how much of a file was synced, by its number rather than by its name,
// which changes.
type safe struct {
	file fs.FileInfo
	size int64
}

// Unlimited is more room than a test can use.
const Unlimited = 1 << 40

// New returns a disk with unlimited room.
func New(dir string) *Disk { return &Disk{dir: dir, room: Unlimited} }

// Fill leaves so many bytes free, until the next call.
func (d *Disk) Fill(free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = d.used() + free
}

// Empty makes the room unlimited again.
func (d *Disk) Empty() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = Unlimited
}

// FailSync makes every sync fail; nil makes them work again.
func (d *Disk) FailSync(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync = err
}

// Syncs returns how many times a file was synced.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// used adds up the files of the directory.
func (d *Disk) used() (n int64) {
	_ = filepath.WalkDir(d.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // a file that went away takes no room
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Create makes a file for writing, in place of one of that name.
func (d *Disk) Create(name string) (*File, error) {
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{File: f, disk: d}, nil
}

// File is a file on the disk.
type File struct {
	*os.File
	disk *Disk
}

// WriteAt writes what there is room for.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room == Unlimited {
		return f.File.WriteAt(p, at)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	grows := max(at+int64(len(p))-info.Size(), 0)
	free := d.room - d.used()
	if grows <= free {
		return f.File.WriteAt(p, at)
	}
	n, err := f.File.WriteAt(p[:max(int64(len(p))-grows+max(free, 0), 0)], at)
	if err != nil {
		return n, err
	}
	return n, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
}

// Sync counts, and fails if it is told to.
func (f *File) Sync() error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.sync != nil {
		return d.sync
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d.safe = append(d.safe, safe{info, info.Size()})
	return nil
}

// CutPower copies into a directory what a power cut would leave at worst: of
// each file what was synced. Names are taken to survive.
func (d *Disk) CutPower(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written by closing it
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b = b[:min(int64(len(b)), d.synced(info))]
		if err := root.WriteFile(e.Name(), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// synced returns how much of a file was synced last.
func (d *Disk) synced(file fs.FileInfo) int64 {
	for _, s := range slices.Backward(d.safe) {
		if os.SameFile(s.file, file) {
			return s.size
		}
	}
	return 0
}
