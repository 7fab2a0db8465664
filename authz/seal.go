package authz

import (
	"crypto/hmac"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sealLife is how long a seal is good: as long as a request may be on its way,
// and clocks apart.
const sealLife = 2 * time.Minute

// sealLabel keeps seals apart from everything else that the key signs.
const sealLabel = "sealed request"

// Seal marks a request with a name, so that a server behind this one that
// shares the key knows where it comes from. A seal is good for one method and
// the last segment of a path, since prefixes are put on and taken off on the
// way.
type Seal struct{ keys keyring }

// NewSeal returns a seal whose key is loaded when it is first needed; see
// [Options].Secret.
func NewSeal(secret func() ([]byte, error)) *Seal { return &Seal{keyring{load: secret}} }

// Set writes the sealed name, which is a token, into a field of the request.
// The error wraps [ErrUnavailable].
func (s *Seal) Set(r *http.Request, field, name string) error {
	key, err := s.keys.get(r.Context())
	if err != nil {
		return err
	}
	until := strconv.FormatInt(time.Now().Add(sealLife).Unix(), 10)
	r.Header.Set(field, name+";until="+until+";mac="+sealOf(key, r, name, until))
	return nil
}

// Take removes a field from the request and reports whether it was sealed for
// it. What a client made up, or saw on another request, is only removed.
func (s *Seal) Take(r *http.Request, field string) bool {
	values := r.Header.Values(field)
	r.Header.Del(field)
	if len(values) != 1 {
		return false
	}
	name, rest, _ := strings.Cut(values[0], ";until=")
	until, mac, ok := strings.Cut(rest, ";mac=")
	if !ok {
		return false
	}
	if at, err := strconv.ParseInt(until, 10, 64); err != nil || time.Now().Unix() > at {
		return false
	}
	key, err := s.keys.get(r.Context())
	return err == nil && hmac.Equal([]byte(mac), []byte(sealOf(key, r, name, until)))
}

func sealOf(key macKey, r *http.Request, name, until string) string {
	segment := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	return base64.RawURLEncoding.EncodeToString(key.mac(sealLabel, r.Method, segment, name, until))
}
