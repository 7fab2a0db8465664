package keyset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// File is a JWK Set in a file. A change takes effect within a second; one that
// cannot be read leaves the keys as they are.
type File struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	data []byte // that keys were made of, or that could not be
	keys []Key
	read time.Time
}

// fileInterval is how often a file is looked at, at most.
const fileInterval = time.Second

// NewFile reads a key set for the first time.
func NewFile(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	return f, f.reload()
}

// Lookup implements [Set].
func (f *File) Lookup(_ context.Context, kid, alg string) ([]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) >= fileInterval {
		if err := f.reload(); err != nil {
			f.log.Warn("key set was not read again", slog.String("file", f.path), slog.Any("error", err))
		}
	}
	if found := find(f.keys, kid, alg); len(found) > 0 {
		return found, nil
	}
	return nil, ErrUnknownKey
}

// reload reads the file and, if it has changed, its keys. A broken one is
// complained about once.
func (f *File) reload() error {
	f.read = time.Now()
	data, err := readFile(f.path)
	if err != nil {
		return fmt.Errorf("reading key set: %w", err)
	}
	if f.data != nil && bytes.Equal(data, f.data) {
		return nil
	}
	f.data = data
	keys, err := Parse(data)
	if err != nil {
		return err
	}
	f.keys = keys
	return nil
}

// readFile reads a file up to one byte more than a key set may have.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the configuration's
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxSet+1))
}
