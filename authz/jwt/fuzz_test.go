package jwt_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// FuzzIdentify holds a law: whatever comes as a token, in whatever place, it
// makes nobody known whose token was not signed by the secret, and every other
// answer is one of the three errors.
func FuzzIdentify(f *testing.F) {
	f.Add(good().sign(f))
	f.Add(good().headed(members{"alg": "none"}).sign(f))
	f.Add(good().with(members{"exp": 1}).sign(f))
	f.Add(strings.Repeat(".", 9000))
	f.Add("")
	f.Add("e30.e30.e30")
	of := hmacIssuer(f)
	of.Cookie, of.Query = "access", "access_token"
	i := identity(f, of)
	f.Fuzz(func(t *testing.T, token string) {
		inQuery := request("/")
		inQuery.URL.RawQuery = "a=1&access_token=" + token
		for _, r := range []*http.Request{
			{Header: http.Header{"Authorization": {"Bearer " + token}}, URL: request("/").URL},
			{Header: http.Header{"Authorization": {token}}, URL: request("/").URL},
			{Header: http.Header{"Cookie": {"access=" + token}}, URL: request("/").URL},
			inQuery,
		} {
			c, err := i.Identify(r)
			if c.Known != (err == nil) || c.Known && !signed(strings.TrimSpace(token)) {
				t.Fatalf("%q: got %+v and %v, want nobody without a signature", token, c, err)
			}
			if err != nil && !errors.Is(err, authz.ErrBadCredentials) && !errors.Is(err, authz.ErrNoCredentials) {
				t.Fatalf("%q: got %v, want one of the errors of an identity", token, err)
			}
		}
		if left := i.StripQuery(inQuery.URL.RawQuery); !strings.HasPrefix(left, "a=1") || strings.Contains(left, "access_token="+token) && token != "" {
			t.Fatalf("%q: got query %q, want it without the token", token, left)
		}
	})
}

// signed verifies an HMAC by the book (RFC 7515 section 5.2), wherever in a
// text the token stands and however a URL or a cookie writes it.
func signed(text string) bool {
	if plain, err := url.QueryUnescape(text); err == nil {
		text += " " + plain
	}
	for _, token := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n&;\"", c) }) {
		at := strings.LastIndexByte(token, '.')
		if at < 0 {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(token[:at]))
		if sig, err := base64.RawURLEncoding.DecodeString(token[at+1:]); err == nil && hmac.Equal(sig, mac.Sum(nil)) {
			return true
		}
	}
	return false
}
