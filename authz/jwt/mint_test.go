package jwt_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	gojwt "github.com/golang-jwt/jwt/v5"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

const (
	issuerName = "https://login.example"
	audience   = "chat"
	secret     = "only-for-tests-0123456789abcdef-0123456789abcdef-0123456789abcdef"
	otherName  = "https://other.example"
)

// keyring are keys of an issuer, made once: RSA keys take their time.
var keyring = sync.OnceValue(func() (k struct {
	rsa     *rsa.PrivateKey
	es      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	another *rsa.PrivateKey
},
) {
	var errs [4]error
	k.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.es, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed, errs[2] = ed25519.GenerateKey(rand.Reader)
	k.another, errs[3] = rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return k
})

type members = map[string]any

// mint makes tokens, by default good ones of HS256.
type mint struct {
	header               members
	claims               members
	rawHeader, rawClaims string // in place of them
	method               gojwt.SigningMethod
	key                  any
}

// good is a token that everything is right about.
func good() mint {
	now := time.Now()
	return mint{
		header: members{"alg": "HS256", "typ": "JWT"},
		claims: members{"iss": issuerName, "aud": audience, "sub": "alice", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()},
		method: gojwt.SigningMethodHS256, key: []byte(secret),
	}
}

// with changes claims; nil takes one away.
func (m mint) with(changes members) mint {
	m.claims = changed(m.claims, changes)
	return m
}

// headed changes the header likewise.
func (m mint) headed(changes members) mint {
	m.header = changed(m.header, changes)
	return m
}

func changed(old, changes members) members {
	out := maps.Clone(old)
	for name, value := range changes {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}

// by signs by another key.
func (m mint) by(method gojwt.SigningMethod, key any) mint {
	m.method, m.key = method, key
	return m.headed(members{"alg": method.Alg()})
}

func segment(t testing.TB, raw string, v members) string {
	t.Helper()
	if raw == "" {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		raw = string(text)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}

// sign returns the token.
func (m mint) sign(t testing.TB) string {
	t.Helper()
	text := segment(t, m.rawHeader, m.header) + "." + segment(t, m.rawClaims, m.claims)
	sig, err := m.method.Sign(text, m.key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func publicPEM(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// hmacIssuer signs by the secret.
func hmacIssuer(t testing.TB) jwt.Issuer {
	t.Helper()
	key, err := keyset.NewKey("HS256", secret)
	if err != nil {
		t.Fatal(err)
	}
	return jwt.Issuer{
		Name: issuerName, Audience: []string{audience}, Keys: keyset.Static{key}, Algorithms: []string{"HS256"},
		Subject: "sub", Leeway: 30 * time.Second,
	}
}

// publicIssuer has all public keys in a key set, each with its own id.
func publicIssuer(t testing.TB) jwt.Issuer {
	t.Helper()
	k := keyring()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.rsa.Public(), KeyID: "r"}, {Key: k.es.Public(), KeyID: "e"}, {Key: k.ed.Public(), KeyID: "d"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := keyset.NewFile(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	i := hmacIssuer(t)
	i.Keys, i.Algorithms = file, keyset.DefaultAlgorithms
	return i
}

func identity(t testing.TB, issuers ...jwt.Issuer) *jwt.Identity {
	t.Helper()
	i, err := jwt.New(issuers, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// request is a request with these fields, as "Name: value".
func request(target string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://gateway.test"+target, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func bearing(token string) *http.Request { return request("/", "Authorization: Bearer "+token) }

// wantAlice fails unless a token is accepted for alice.
func wantAlice(t *testing.T, i authz.Identity, what, token string) authz.Caller {
	t.Helper()
	c, err := i.Identify(bearing(token))
	if err != nil || !c.Known || c.Subject.Sub != "alice" {
		t.Errorf("%s: got %+v and %v, want alice", what, c, err)
	}
	return c
}

// wantRefused fails unless a token is refused like every other.
func wantRefused(t *testing.T, i authz.Identity, what, token string) {
	t.Helper()
	c, err := i.Identify(bearing(token))
	if !errors.Is(err, authz.ErrBadCredentials) || c != (authz.Caller{}) {
		t.Errorf("%s: got %+v and %v, want it refused", what, c, err)
	}
	if got, want := i.Challenge(err), `Bearer realm="agent runs", error="invalid_token"`; got != want {
		t.Errorf("%s: got challenge %q, want %q", what, got, want)
	}
}
