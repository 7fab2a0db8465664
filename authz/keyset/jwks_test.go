package keyset_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// jwk returns a key as a JWK, with members added or replaced.
func jwk(t *testing.T, key any, members map[string]any) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKey{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, members)
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// private makes a key of each kind, once.
func private(t *testing.T) (*rsa.PrivateKey, *ecdsa.PrivateKey, ed25519.PrivateKey) {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return r, e, ed
}

// weakRSA is a modulus of 1024 bits.
func weakRSA(t *testing.T) *rsa.PublicKey {
	t.Helper()
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	n := *strong.N
	return &rsa.PublicKey{N: n.Rsh(strong.N, 1024).SetBit(&n, 0, 1), E: 65537}
}

// Promises 1 and 2.
func TestOnlyKeysThatMayVerifyAreTaken(t *testing.T) {
	r, e, ed := private(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	type members = map[string]any
	for _, tt := range []struct {
		name, jwk string
		want      []string // algorithms
	}{
		{"RSA", jwk(t, r.Public(), nil), []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}},
		{"RSA for one algorithm", jwk(t, r.Public(), members{"alg": "PS256"}), []string{"PS256"}},
		{"P-256", jwk(t, e.Public(), nil), []string{"ES256"}},
		{"P-384", jwk(t, p384.Public(), nil), []string{"ES384"}},
		{"Ed25519", jwk(t, ed.Public(), members{"use": "sig", "key_ops": []string{"verify"}}), []string{"EdDSA"}},
		{"members of others", jwk(t, e.Public(), members{"x5t": "x", "ext": true, "nbf": 1}), nil},
		{"unknown members", jwk(t, e.Public(), members{"ext": true, "exp": 1}), []string{"ES256"}},
		{"a secret", `{"kty":"oct","k":"` + strings.Repeat("A", 64) + `"}`, nil},
		{"a secret that says it is for RSA", `{"kty":"oct","alg":"RS256","k":"` + strings.Repeat("A", 64) + `"}`, nil},
		{"a private key", jwk(t, ed, nil), nil},
		{"for encryption", jwk(t, r.Public(), members{"use": "enc"}), nil},
		{"not to verify", jwk(t, r.Public(), members{"key_ops": []string{"encrypt"}}), nil},
		{"to do nothing", jwk(t, r.Public(), members{"key_ops": []string{}}), nil},
		{"of an algorithm for another kind", jwk(t, r.Public(), members{"alg": "ES256"}), nil},
		{"of an HMAC", jwk(t, r.Public(), members{"alg": "HS256"}), nil},
		{"to encrypt", jwk(t, r.Public(), members{"alg": "RSA-OAEP"}), nil},
		{"none", jwk(t, r.Public(), members{"alg": "none"}), nil},
		{"of another curve's hash", jwk(t, p384.Public(), members{"alg": "ES256"}), nil},
		{"weak RSA", jwk(t, weakRSA(t), nil), nil},
		{"a point off the curve", jwk(t, e.Public(), members{"x": strings.Repeat("A", 43)}), nil},
		{"another curve", `{"kty":"OKP","crv":"X25519","x":"` + strings.Repeat("A", 43) + `"}`, nil},
		{"another kind", `{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}`, nil},
		{"no kind", `{"kid":"a"}`, nil},
		{"no key", `7`, nil},
		{"an endless id", jwk(t, e.Public(), members{"kid": strings.Repeat("k", 257)}), nil},
		{"a member twice", strings.Replace(jwk(t, e.Public(), nil), `{`, `{"kty":"EC",`, 1), nil},
	} {
		keys, err := keyset.Parse([]byte(`{"keys":[` + tt.jwk + `]}`))
		switch {
		case strings.Contains(tt.name, "twice"):
			if err == nil && len(keys) > 0 {
				t.Errorf("%s: got %v, want none", tt.name, keys)
			}
		case err != nil || (len(keys) == 1) != (tt.want != nil) || len(keys) == 1 && !slices.Equal(keys[0].Algorithms, tt.want):
			t.Errorf("%s: got %v and %v, want one for %v", tt.name, keys, err, tt.want)
		}
	}
}

func TestKeySetsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "not JSON": "{", "an array": "[]", "null": "null", "without keys": `{"key":[]}`, "keys null": `{"keys":null}`,
		"keys of another type": `{"keys":{}}`, "keys twice": `{"keys":[],"keys":[]}`, "too many": set(make([]string, 101)...),
		"too long":    `{"keys":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`,
		"too nested":  `{"keys":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"a web page":  "<html>",
		"not unicode": "{\"keys\": \xff}",
	} {
		if keys, err := keyset.Parse([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want an error", name, keys)
		}
	}
	if keys, err := keyset.Parse([]byte(`{"keys":[]}`)); err != nil || len(keys) > 0 {
		t.Errorf("no keys: got %v and %v, want none", keys, err)
	}
}

func pemOf(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// publicPEM returns a public key as openssl writes it.
func publicPEM(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	return pemOf(t, "PUBLIC KEY", der, err)
}

// Promise 1, for keys of a configuration.
func TestKeysGoWithTheirAlgorithm(t *testing.T) {
	r, e, ed := private(t)
	rsaPEM, ecPEM, edPEM := publicPEM(t, r.Public()), publicPEM(t, e.Public()), publicPEM(t, ed.Public())
	privateDER, err := x509.MarshalPKCS8PrivateKey(ed)
	privatePEM := pemOf(t, "PRIVATE KEY", privateDER, err)
	const why = "allowed" // every error says what is allowed, or what does not go with what
	for _, tt := range []struct{ name, alg, text, wrong string }{
		{"RSA", "RS256", rsaPEM, ""},
		{"RSA with PSS", "PS512", rsaPEM, ""},
		{"RSA in its own form", "RS256", pemOf(t, "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&r.PublicKey), nil), ""},
		{"elliptic", "ES256", ecPEM, ""},
		{"Ed25519", "EdDSA", edPEM, ""},
		{"secret", "HS256", strings.Repeat("s", 32), ""},
		{"long secret", "HS512", strings.Repeat("s", 64), ""},
		{"short secret", "HS256", strings.Repeat("s", 31), "found a secret of 31 bytes, allowed for HS256: 32 or more"},
		{"short secret for a long hash", "HS512", strings.Repeat("s", 63), "63 bytes, allowed for HS512: 64"},
		{"short secret for 384", "HS384", strings.Repeat("s", 47), "47 bytes, allowed for HS384: 48"},
		{"no secret", "HS256", "", "found a secret of 0 bytes"},
		{"public key as a secret", "HS256", rsaPEM, "found PEM, allowed for HS256: a secret"},
		{"secret as a public key", "RS256", strings.Repeat("s", 64), why},
		{"RSA for a curve", "ES256", rsaPEM, "found an RSA key of 2048 bits, which does not go with ES256"},
		{"curve for another", "ES384", ecPEM, "found an elliptic key on P-256, which does not go with ES384"},
		{"Ed25519 for RSA", "RS256", edPEM, "an Ed25519 key"},
		{"weak RSA", "RS256", publicPEM(t, weakRSA(t)), "found an RSA key of"},
		{"private key", "EdDSA", privatePEM, "found no public key"},
		{"broken", "RS256", strings.Replace(rsaPEM, "M", "", 1), "found no public key"},
		{"none", "none", rsaPEM, `algorithm "none", allowed: RS256`},
		{"small letters", "rs256", rsaPEM, `algorithm "rs256"`},
		{"nothing", "", rsaPEM, `algorithm ""`},
	} {
		k, err := keyset.NewKey(tt.alg, tt.text)
		if tt.wrong == "" {
			if err != nil || !slices.Equal(k.Algorithms, []string{tt.alg}) {
				t.Errorf("%s: got %v and %v, want a key for %s alone", tt.name, k.Algorithms, err, tt.alg)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.wrong)
		}
		if err != nil && len(tt.text) > 8 && strings.Contains(err.Error(), tt.text[:8]) {
			t.Errorf("%s: got %v, want nothing of the key in it", tt.name, err)
		}
	}
}

// Promise 3.
func TestKeysAreFoundByTheirExactID(t *testing.T) {
	r, e, ed := private(t)
	with := func(key any, id string) string {
		if id == "" {
			return jwk(t, key, nil)
		}
		return jwk(t, key, map[string]any{"kid": id})
	}
	r1, e1, ed1, e2 := with(r.Public(), "r"), with(e.Public(), "e"), with(ed.Public(), "d"), with(e.Public(), "")
	for _, tt := range []struct {
		name      string
		set       []string
		kid, alg  string
		wantFound int
	}{
		{"by id", []string{r1, e1, ed1}, "e", "ES256", 1},
		{"by id of another algorithm", []string{r1, e1, ed1}, "e", "EdDSA", 0},
		{"other capitals", []string{r1, e1, ed1}, "E", "ES256", 0},
		{"a part of an id", []string{r1, with(e.Public(), "ee")}, "e", "ES256", 0},
		{"no id, one of its algorithm", []string{r1, e1, ed1}, "", "ES256", 1},
		{"no id, two of its algorithm", []string{e1, with(e.Public(), "f")}, "", "ES256", 0},
		{"key without id", []string{r1, e2}, "e", "ES256", 1},
		{"key without id beside the right one", []string{e2, e1}, "e", "ES256", 1},
		{"two keys without ids", []string{e2, e2}, "e", "ES256", 0},
		{"one id for two keys", []string{e1, e1}, "e", "ES256", 2},
		{"one id for two kinds", []string{e1, with(r.Public(), "e")}, "e", "ES256", 1},
		{"HMAC", []string{r1, e1, ed1}, "r", "HS256", 0},
		{"none", []string{r1, e1, ed1}, "r", "none", 0},
	} {
		s := fileWith(t, `{"keys":[`+strings.Join(tt.set, ",")+`]}`)
		found, err := s.Lookup(t.Context(), tt.kid, tt.alg)
		if len(found) != tt.wantFound || (err == nil) != (tt.wantFound > 0) {
			t.Errorf("%s: got %d keys and %v, want %d", tt.name, len(found), err, tt.wantFound)
		}
	}
}

func TestStaticTriesAllOfAnAlgorithm(t *testing.T) {
	var s keyset.Static
	for n := range 2 {
		k, err := keyset.NewKey("HS256", fmt.Sprintf("%032d", n))
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, k)
	}
	if found, err := s.Lookup(t.Context(), "whatever", "HS256"); len(found) != 2 || err != nil {
		t.Errorf("got %d keys and %v, want both", len(found), err)
	}
	if found, err := s.Lookup(t.Context(), "", "HS384"); len(found) != 0 || err == nil {
		t.Errorf("another algorithm: got %d keys and %v, want none", len(found), err)
	}
}
