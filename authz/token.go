package authz

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// A token is the value of a session cookie: unpadded base64url of
//
//	version  1 byte
//	issued   5 bytes, seconds since 1970, big endian
//	id      16 bytes
//	mac     32 bytes, HMAC-SHA256 of the cookie's name and everything before
//
// The length is a multiple of three, so that no two texts decode to the same
// bytes.
type token struct {
	issued time.Time
	id     [16]byte
}

const (
	tokenVersion = 1
	issuedLength = 5
	payload      = 1 + issuedLength + 16
	tokenBytes   = payload + sha256.Size
	tokenText    = tokenBytes / 3 * 4
)

// newToken returns a token of nobody yet: 128 random bits.
func newToken() token {
	t := token{issued: time.Now()}
	rand.Read(t.id[:]) // never fails: crypto/rand ends the process instead
	return t
}

// sign returns the token as the value of the cookie of that name. A value is
// good under its own name only: one that travelled in clear text is not taken
// under the name that promises TLS.
func (t token) sign(k macKey, cookie string) string {
	var seconds [8]byte
	binary.BigEndian.PutUint64(seconds[:], uint64(t.issued.Unix()))
	b := make([]byte, 0, tokenBytes)
	b = append(b, tokenVersion)
	b = append(b, seconds[8-issuedLength:]...)
	b = append(b, t.id[:]...)
	b = append(b, k.mac("cookie", cookie, string(b))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// readToken returns the token in the value of the cookie of that name, and
// false for every value that sign has not made with this key.
func readToken(k macKey, cookie, value string) (token, bool) {
	if len(value) != tokenText {
		return token{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(value)
	// The decoder skips line breaks, so the length must be looked at again.
	if err != nil || len(b) != tokenBytes || b[0] != tokenVersion {
		return token{}, false
	}
	if !hmac.Equal(b[payload:], k.mac("cookie", cookie, string(b[:payload]))) {
		return token{}, false
	}
	var seconds [8]byte
	copy(seconds[8-issuedLength:], b[1:])
	t := token{issued: time.Unix(int64(binary.BigEndian.Uint64(seconds[:])), 0)}
	copy(t.id[:], b[1+issuedLength:])
	return t, true
}
