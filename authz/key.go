package authz

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// MinSecret is the least length of a signing key in bytes: that of the hash
// (RFC 2104 section 3).
const MinSecret = sha256.Size

// shortMAC is how much of a MAC a subject or a pseudonym shows: 128 bits.
const shortMAC = 16

// macKey signs and hashes. One key serves several purposes, which the label of
// every MAC keeps apart.
type macKey []byte

// mac is HMAC-SHA256 over a label and parts. Every piece is prefixed with its
// length, so that no choice of parts collides with another.
func (k macKey) mac(label string, parts ...string) []byte {
	h := hmac.New(sha256.New, k)
	write := func(s string) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	write(label)
	for _, p := range parts {
		write(p)
	}
	return h.Sum(nil)
}

// name returns a short text form of a MAC, for use as a name.
func (k macKey) name(label string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(k.mac(label, parts...)[:shortMAC])
}

// Pseudonym returns a name for s that can be logged: equal for equal subjects,
// and without secret not to be turned back. It is empty for the zero subject.
func Pseudonym(secret []byte, s Subject) string {
	if s == (Subject{}) {
		return ""
	}
	return macKey(secret).name("pseudonym", s.Tenant, s.Issuer, s.Sub)
}

// keyring loads a key when it is first needed. Callers that come while it is
// loading share the outcome, so that a store that hangs is asked once and not
// once per request in turn. A failure is not remembered.
type keyring struct {
	load   func() ([]byte, error)
	loaded atomic.Pointer[macKey]

	mu   sync.Mutex // guards call
	call *keyLoad   // the load under way, or nil
}

// keyLoad is one attempt. Its results are read after done is closed.
type keyLoad struct {
	done chan struct{}
	key  macKey
	err  error
}

// errLoadPanicked is what waiting callers see of a load that panicked.
var errLoadPanicked = errors.New("loading did not return")

// get returns the key, or an error that wraps [ErrUnavailable].
func (k *keyring) get(ctx context.Context) (macKey, error) {
	if loaded := k.loaded.Load(); loaded != nil {
		return *loaded, nil
	}
	call, first := k.join()
	if first {
		k.run(call)
		return call.key, call.err
	}
	select {
	case <-call.done:
		return call.key, call.err
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx))
	}
}

// join returns the load under way, or begins one that the caller must run.
func (k *keyring) join() (call *keyLoad, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.call != nil {
		return k.call, false
	}
	call = &keyLoad{done: make(chan struct{}), err: unavailable(errLoadPanicked)}
	if loaded := k.loaded.Load(); loaded != nil {
		// The load that the caller missed has ended in the meantime.
		call.key, call.err = *loaded, nil
		close(call.done)
		return call, false
	}
	k.call = call
	return call, true
}

func (k *keyring) run(call *keyLoad) {
	defer func() {
		k.mu.Lock()
		k.call = nil
		k.mu.Unlock()
		close(call.done)
	}()
	call.key, call.err = k.fetch()
	if call.err == nil {
		k.loaded.Store(&call.key)
	}
}

func (k *keyring) fetch() (macKey, error) {
	secret, err := k.load()
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(secret) < MinSecret:
		return nil, unavailable(fmt.Errorf("it has %d bytes, at least %d are needed", len(secret), MinSecret))
	}
	return bytes.Clone(secret), nil
}

func unavailable(err error) error {
	return fmt.Errorf("%w: loading session key: %w", ErrUnavailable, err)
}
