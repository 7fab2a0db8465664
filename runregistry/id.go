package runregistry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Partitions is the fixed number of store partitions. Every key that one
// admission touches lives in one partition; the run id names it.
const Partitions = 64

// runIDPrefix opens every run id; it makes ids recognisable in logs and URLs.
const runIDPrefix = "run_"

// runIDLength is the length of a whole id: prefix, 2 characters for the
// partition, 26 for 128 random bits.
const runIDLength = len(runIDPrefix) + 2 + 26

// alphabet is Crockford's base32 in lower case: no i, l, o, u.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// RunID names a run. It is not a capability: knowing one gives nothing
// without the right to the run it names.
type RunID string

// Partition is the part of the store in which a run and everything claimed
// with it lives, 0 to [Partitions]-1.
type Partition uint8

// PartitionOf returns the partition of a scope or subject key.
func PartitionOf(key string) Partition {
	h := fnv.New32a()
	h.Write([]byte(key)) // never returns an error
	return Partition(h.Sum32() % Partitions)
}

// NewRunID draws an id: 128 bits from crypto/rand, not ordered in time.
func NewRunID(p Partition) RunID {
	var raw [16]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	var b [runIDLength]byte
	n := copy(b[:], runIDPrefix)
	b[n], b[n+1] = alphabet[p>>5], alphabet[p&31]
	encode128(b[n+2:], raw)
	return RunID(b[:])
}

// encode128 writes 128 bits as 26 characters, most significant first; the
// first character carries 3 bits.
func encode128(dst []byte, raw [16]byte) {
	var acc uint32
	bits := 2 // 130 bits in 26 characters: two leading zero bits
	out := 0
	for _, octet := range raw {
		acc = acc<<8 | uint32(octet)
		bits += 8
		for bits >= 5 {
			bits -= 5
			dst[out] = alphabet[acc>>bits&31]
			out++
		}
	}
}

// ParseRunID accepts exactly the canonical spelling of an id.
func ParseRunID(s string) (RunID, error) {
	if len(s) != runIDLength || !strings.HasPrefix(s, runIDPrefix) {
		return "", ErrMalformedRunID
	}
	for i := len(runIDPrefix); i < len(s); i++ {
		if strings.IndexByte(alphabet, s[i]) < 0 {
			return "", ErrMalformedRunID
		}
	}
	if s[len(runIDPrefix)] > '1' || s[len(runIDPrefix)+2] > '7' {
		return "", ErrMalformedRunID // out of range of the partition or of 128 bits
	}
	return RunID(s), nil
}

// Partition returns the partition that the id names.
func (id RunID) Partition() Partition {
	n := len(runIDPrefix)
	return Partition(strings.IndexByte(alphabet, id[n])<<5 | strings.IndexByte(alphabet, id[n+1]))
}

// Seq is the position of a frame in its run. The first frame is 1; 0 means
// "before the first".
type Seq uint64

// maxSeq keeps sequence numbers exact in JavaScript numbers.
const maxSeq = Seq(1<<53 - 1)

// Epoch is the fencing number of a lease. It grows by one with every change
// of owner.
type Epoch uint64

// Cursor is a position in a run: everything up to and including Seq was seen.
// Its text form, "<run_id>.<seq>", is the SSE id of every frame.
type Cursor struct {
	Run RunID
	Seq Seq
}

// String returns the text form. It uses only bytes that a browser may put
// into Last-Event-ID without a CORS preflight (Fetch, "CORS-unsafe
// request-header byte").
func (c Cursor) String() string { return string(c.AppendTo(nil)) }

// AppendTo appends the text form to dst.
func (c Cursor) AppendTo(dst []byte) []byte {
	dst = append(dst, c.Run...)
	dst = append(dst, '.')
	return strconv.AppendUint(dst, uint64(c.Seq), 10)
}

// ParseCursor reads the text form. The number has no sign and no leading
// zero, and is at most 2^53-1.
func ParseCursor(s string) (Cursor, error) {
	head, tail, ok := strings.Cut(s, ".")
	if !ok || len(tail) > 1 && tail[0] == '0' {
		return Cursor{}, ErrMalformedCursor
	}
	run, err := ParseRunID(head)
	if err != nil {
		return Cursor{}, ErrMalformedCursor
	}
	n, err := strconv.ParseUint(tail, 10, 64)
	if err != nil || Seq(n) > maxSeq {
		return Cursor{}, ErrMalformedCursor
	}
	return Cursor{Run: run, Seq: Seq(n)}, nil
}

// LooksLikeCursor tells whether s begins like one of our run ids, so that a
// Last-Event-ID of somebody else's stream is left to its own server.
func LooksLikeCursor(s string) bool {
	head, _, ok := strings.Cut(s, ".")
	if !ok {
		return false
	}
	_, err := ParseRunID(head)
	return err == nil
}

// ConversationID is the application's own id for a dialogue.
type ConversationID string

// maxConversationID is the longest id, in bytes.
const maxConversationID = 128

// ParseConversationID accepts 1 to 128 of A-Z a-z 0-9 . _ ~ : @ - and neither
// "." nor "..", which would change the meaning of a path.
func ParseConversationID(s string) (ConversationID, error) {
	if s == "" || len(s) > maxConversationID || s == "." || s == ".." {
		return "", ErrMalformedConversation
	}
	for i := range len(s) {
		if !conversationByte(s[i]) {
			return "", ErrMalformedConversation
		}
	}
	return ConversationID(s), nil
}

func conversationByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
		strings.IndexByte("._~:@-", c) >= 0
}

// NewConversationID makes an id for a run whose request names none.
func NewConversationID() ConversationID {
	return ConversationID("conv_" + strings.ToLower(rand.Text()))
}

// Malformed input. Each is answered with a typed 400 or, for a run id, like
// an unknown one; a page token may also be ignored.
var (
	ErrMalformedRunID        = errors.New("run id is not in the grammar")
	ErrMalformedCursor       = errors.New("cursor is not in the grammar")
	ErrMalformedPage         = errors.New("page token is not one of ours")
	ErrMalformedConversation = fmt.Errorf("conversation id must be 1 to %d of A-Z a-z 0-9 . _ ~ : @ -", maxConversationID)
)
