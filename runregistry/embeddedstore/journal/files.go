package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// File is a file that a journal writes.
type File interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// Create makes a file for writing, in place of one of that name.
type Create func(name string) (File, error)

// create is the [Create] of the operating system. What it makes is for nobody
// else to read: answers and hashes of credentials are in it.
func create(name string) (File, error) {
	return os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// The names in a directory.
const (
	lockName    = "lock"
	reserveName = "reserve"
	logSuffix   = ".log"
	baseSuffix  = ".base"
	draftSuffix = ".draft" // of a file that is not finished
)

func fileName(dir string, generation uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", generation, suffix))
}

// numbered is a numbered file of a directory.
type numbered struct {
	name       string
	generation uint64
	base       bool
	size       int64
}

// list returns the numbered files in the order of their generation, a base
// before its log. Drafts of a process that died are removed.
func list(dir string) ([]numbered, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing journal: %w", err)
	}
	var found []numbered
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if strings.HasSuffix(name, draftSuffix) {
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("removing a draft: %w", err)
			}
			continue
		}
		n, ok := parseName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("listing journal: %w", err)
		}
		n.name, n.size = name, info.Size()
		found = append(found, n)
	}
	slices.SortFunc(found, func(a, b numbered) int {
		if c := cmp.Compare(a.generation, b.generation); c != 0 || a.base == b.base {
			return c
		}
		if a.base {
			return -1
		}
		return 1
	})
	return found, nil
}

func parseName(name string) (numbered, bool) {
	digits, base := strings.CutSuffix(name, baseSuffix)
	if !base {
		var log bool
		if digits, log = strings.CutSuffix(name, logSuffix); !log {
			return numbered{}, false
		}
	}
	g, err := strconv.ParseUint(digits, 10, 64)
	return numbered{generation: g, base: base}, err == nil && g > 0
}

// current splits the files into those that count and those that a base has
// made obsolete.
func current(files []numbered) (counts, obsolete []numbered) {
	for i, f := range slices.Backward(files) {
		if f.base {
			return files[i:], files[:i]
		}
	}
	return files, nil
}

func remove(files []numbered) error {
	for _, f := range files {
		if err := os.Remove(f.name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing an old file: %w", err)
		}
	}
	return nil
}

// syncDir makes the names in a directory durable. Windows has no such call and
// does not need it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	err = d.Sync()
	if err := errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	return nil
}
