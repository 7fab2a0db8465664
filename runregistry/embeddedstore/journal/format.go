package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// magic opens every file; its last two digits are the version of the format.
var magic = [8]byte{'a', 'r', 'j', 'r', 'n', 'l', '0', '1'}

const (
	headerSize = 32
	prefixSize = 8 // of a record: length and checksum

	// afterFailure flags a log that was begun because the one before it could not
	// be synced.
	afterFailure = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the beginning of a file.
type header struct {
	generation uint64
	flags      uint64
	salt       [4]byte
}

func newHeader(generation, flags uint64) header {
	h := header{generation: generation, flags: flags}
	_, _ = rand.Read(h.salt[:]) // crypto/rand never fails
	return h
}

// seed is what every checksum of the file starts from.
func (h *header) seed() uint32 { return crc32.Checksum(h.salt[:], castagnoli) }

func (h *header) bytes() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, magic[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.generation)
	b = binary.LittleEndian.AppendUint64(b, h.flags)
	b = append(b, h.salt[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var (
	errHeader  = errors.New("no header of this format")
	errVersion = errors.New("written by another version")
	errRecord  = errors.New("no whole record")
	errMissing = errors.New("file is missing")
)

func parseHeader(b []byte) (header, error) {
	var h header
	const name = len(magic) - 2
	switch {
	case len(b) < headerSize || !bytes.Equal(b[:name], magic[:name]):
		return h, errHeader
	case !bytes.Equal(b[:len(magic)], magic[:]):
		return h, errVersion
	case binary.LittleEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli):
		return h, errHeader
	}
	h.generation = binary.LittleEndian.Uint64(b[8:])
	h.flags = binary.LittleEndian.Uint64(b[16:])
	copy(h.salt[:], b[24:])
	return h, nil
}

// frame makes b, which begins with room for the prefix, a record. It reports
// false for a payload that a record cannot hold.
func frame(b []byte, seed uint32) bool {
	n := len(b) - prefixSize
	if n < 1 || n > maxPayload {
		return false
	}
	binary.LittleEndian.PutUint32(b, uint32(n&maxPayload))
	binary.LittleEndian.PutUint32(b[4:], checksum(b, seed))
	return true
}

// maxPayload is the largest payload of a record.
const maxPayload = 1<<31 - 1

// checksum covers the length and the payload of a record.
func checksum(b []byte, seed uint32) uint32 {
	sum := crc32.Update(seed, castagnoli, b[:4])
	return crc32.Update(sum, castagnoli, b[prefixSize:])
}
