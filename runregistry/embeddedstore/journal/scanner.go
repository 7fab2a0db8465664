package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanner reads a file record by record.
type scanner struct {
	header
	r      *bufio.Reader
	offset int64 // end of the last whole record
	size   int64 // of the file
	buf    []byte
}

// scanBuffer is how much of a file is read at a time.
const scanBuffer = 256 << 10

// newScanner reads the header of a file of the given size.
func newScanner(r io.Reader, size int64) (*scanner, error) {
	s := &scanner{r: bufio.NewReaderSize(r, scanBuffer), size: size}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(s.r, head); err != nil {
		if ended(err) {
			return nil, errHeader
		}
		return nil, fmt.Errorf("reading header: %w", err)
	}
	h, err := parseHeader(head)
	if err != nil {
		return nil, err
	}
	s.header, s.offset = h, headerSize
	return s, nil
}

// ended reports whether reading stopped because there was no more.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// next returns the payload of the next record, valid until the next call. It
// returns [io.EOF] at the end of the file, and errRecord where something else
// than a whole record follows.
func (s *scanner) next() ([]byte, error) {
	left := s.size - s.offset
	switch {
	case left == 0:
		return nil, io.EOF
	case left < prefixSize:
		return nil, errRecord
	}
	prefix, err := s.r.Peek(prefixSize)
	if err != nil {
		return nil, s.failed(err)
	}
	n := int64(binary.LittleEndian.Uint32(prefix))
	// The length is checked against the file before memory is spent on it.
	if n == 0 || n > left-prefixSize {
		return nil, errRecord
	}
	b := s.room(int(prefixSize + n))
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, s.failed(err)
	}
	if checksum(b, s.seed()) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, errRecord
	}
	s.offset += int64(len(b))
	return b[prefixSize:], nil
}

func (s *scanner) failed(err error) error {
	if ended(err) {
		return errRecord // the file became shorter
	}
	return fmt.Errorf("reading record: %w", err)
}

func (s *scanner) room(n int) []byte {
	if cap(s.buf) < n {
		s.buf = make([]byte, n, max(n, 2*cap(s.buf)))
	}
	return s.buf[:n]
}
