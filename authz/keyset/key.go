package keyset

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Key is a public key or a secret.
type Key struct {
	// ID is the kid of the key; empty if it has none.
	ID string
	// Algorithms are those that the key may verify, by their names in RFC 7518
	// section 3.1 and RFC 8037 section 3.1.
	Algorithms []string

	material any
}

// secretSizes are the least lengths of secrets in bytes (RFC 7518 section 3.2).
var secretSizes = map[string]int{"HS256": 32, "HS384": 48, "HS512": 64}

// minRSA is the least length of RSA keys in bits (RFC 7518 sections 3.3 and
// 3.5).
const minRSA = 2048

var rsaAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

var curveAlgorithms = map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}

// Algorithms are all that can be verified.
var Algorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
}

// DefaultAlgorithms are those of an issuer that names none (RFC 8725 section
// 3.1 wants a list for each).
var DefaultAlgorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}

// IsSymmetric reports whether who can verify by alg can also sign.
func IsSymmetric(alg string) bool { return secretSizes[alg] > 0 }

// publicAlgorithms returns what a public key can verify; nothing for one that
// is too weak, or of no kind that is known.
func publicAlgorithms(key any) []string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSA {
			return rsaAlgorithms
		}
	case *ecdsa.PublicKey:
		if alg, ok := curveAlgorithms[k.Curve.Params().Name]; ok {
			return []string{alg}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

// NewKey returns the key of a configuration for one algorithm: text is a
// secret for HS256, HS384 and HS512, and for all others a public key in PEM.
// The error says what is wrong and shows nothing of the text.
func NewKey(alg, text string) (Key, error) {
	if IsSymmetric(alg) {
		return newSecret(alg, text)
	}
	if !slices.Contains(Algorithms, alg) {
		return Key{}, fmt.Errorf("algorithm %q, allowed: %s", alg, strings.Join(Algorithms, ", "))
	}
	public, err := parsePEM(text)
	if err != nil {
		return Key{}, err
	}
	if !slices.Contains(publicAlgorithms(public), alg) {
		return Key{}, fmt.Errorf("found %s, which does not go with %s", describe(public), alg)
	}
	return Key{Algorithms: []string{alg}, material: public}, nil
}

func newSecret(alg, text string) (Key, error) {
	switch least := secretSizes[alg]; {
	case strings.Contains(text, "-----BEGIN "):
		// Everybody may have a public key: as a secret it would let all sign.
		return Key{}, fmt.Errorf("found PEM, allowed for %s: a secret", alg)
	case len(text) < least:
		return Key{}, fmt.Errorf("found a secret of %d bytes, allowed for %s: %d or more", len(text), alg, least)
	}
	return Key{Algorithms: []string{alg}, material: []byte(text)}, nil
}

var errNoPublicKey = errors.New("found no public key, allowed: a PEM block PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE")

func parsePEM(text string) (any, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errNoPublicKey
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		return nil, errNoPublicKey
	}
	if err != nil {
		return nil, errNoPublicKey // the reason may quote the key
	}
	return key, nil
}

// describe names the kind of a public key.
func describe(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("an RSA key of %d bits", k.N.BitLen())
	case *ecdsa.PublicKey:
		return "an elliptic key on " + k.Curve.Params().Name
	case ed25519.PublicKey:
		return "an Ed25519 key"
	}
	return "a key of another kind"
}
