package keyset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	strict "github.com/go-jose/go-jose/v4/json"
)

// The limits of a JWK Set.
const (
	maxSet  = 1 << 20 // bytes
	maxKeys = 100
	maxID   = 256 // bytes of a kid
)

// Parse reads a JWK Set (RFC 7517 section 5). Keys that may not verify tokens
// are left out; a set without any is valid, and no token is.
func Parse(data []byte) ([]Key, error) {
	if len(data) > maxSet {
		return nil, fmt.Errorf("key set is longer than %d bytes", maxSet)
	}
	if !json.Valid(data) { // which also bounds how deep it nests
		return nil, errors.New("key set is not JSON")
	}
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := strict.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("reading key set: %w", err)
	}
	switch {
	case set.Keys == nil:
		return nil, errors.New("key set has no member keys")
	case len(*set.Keys) > maxKeys:
		return nil, fmt.Errorf("key set has %d keys, allowed are %d", len(*set.Keys), maxKeys)
	}
	keys := make([]Key, 0, len(*set.Keys))
	for _, raw := range *set.Keys {
		if k, ok := parseKey(raw); ok {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// parseKey reads one JWK, and reports whether it may verify tokens.
func parseKey(raw []byte) (Key, bool) {
	var jwk jose.JSONWebKey
	var ops struct {
		KeyOps []string `json:"key_ops"`
	}
	if jwk.UnmarshalJSON(raw) != nil || strict.Unmarshal(raw, &ops) != nil {
		return Key{}, false
	}
	algorithms := publicAlgorithms(jwk.Key) // none for a secret and for a private key
	if jwk.Algorithm != "" {
		if !slices.Contains(algorithms, jwk.Algorithm) {
			return Key{}, false
		}
		algorithms = []string{jwk.Algorithm}
	}
	usable := len(algorithms) > 0 && len(jwk.KeyID) <= maxID &&
		(jwk.Use == "" || jwk.Use == "sig") &&
		(ops.KeyOps == nil || slices.Contains(ops.KeyOps, "verify"))
	return Key{ID: jwk.KeyID, Algorithms: algorithms, material: jwk.Key}, usable
}
