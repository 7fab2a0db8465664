// Package keyset holds the keys that verify the tokens of one issuer: written
// in the configuration ([Static]), in a file ([File]), or served by the issuer
// ([Remote]).
//
// It promises:
//
//  1. A key verifies only algorithms that fit it: a public key never an HMAC, a
//     curve only its own hash, an RSA key below 2048 bits nothing at all, and a
//     secret no hash that is longer than it (RFC 7518 sections 3.2 to 3.5).
//  2. From a JWK Set only public keys are taken whose use, key_ops and alg
//     allow to verify. All others are passed over, as RFC 7517 section 5 asks.
//  3. A key is found by its exact id. A token without one finds a key only if
//     there is a single one for its algorithm.
//  4. Whatever tokens strangers send, an issuer is asked at most once in 30
//     seconds. Lookups that wait for an answer share it, and those whose key is
//     known wait for none.
//  5. The last good set stays in use for a day while its issuer is down. A key
//     that the issuer took back is gone after the next fetch.
//  6. Without a set that was ever fetched nothing is found ([ErrUnavailable]);
//     attempts go on in the background, and the first that succeeds is used.
//  7. An issuer is asked over TLS, for 5 seconds and 1 MiB at most, and never at
//     another host than the configured one.
package keyset

import (
	"context"
	"errors"
	"slices"
)

// Set finds the keys of one issuer.
type Set interface {
	// Lookup returns what may verify a token with this kid (empty for none) and
	// alg, for golang-jwt: several if an issuer gave one id to several keys. It
	// fails with [ErrUnknownKey] or [ErrUnavailable].
	Lookup(ctx context.Context, kid, alg string) ([]any, error)
}

// ErrUnknownKey means that no key of the set may verify such a token.
var ErrUnknownKey = errors.New("no key of the issuer fits")

// ErrUnavailable means that it cannot be told now which keys the issuer has.
var ErrUnavailable = errors.New("keys of the issuer are not available")

// Static are keys without ids. All that fit an algorithm are tried, so that a
// secret can be replaced while tokens of the old one are still in use.
type Static []Key

// Lookup implements [Set].
func (s Static) Lookup(_ context.Context, _, alg string) ([]any, error) {
	var found []any
	for _, k := range s {
		if slices.Contains(k.Algorithms, alg) {
			found = append(found, k.material)
		}
	}
	if len(found) == 0 {
		return nil, ErrUnknownKey
	}
	return found, nil
}

// find looks a key up by its id. One without an id serves the tokens that no
// other serves, if it is the only one that could be meant.
func find(keys []Key, kid, alg string) []any {
	var named, nameless []any
	for _, k := range keys {
		switch {
		case !slices.Contains(k.Algorithms, alg):
		case kid != "" && k.ID == kid:
			named = append(named, k.material)
		case kid == "" || k.ID == "":
			nameless = append(nameless, k.material)
		}
	}
	if len(named) == 0 && len(nameless) == 1 {
		return nameless
	}
	return named
}
