package authz_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// secret signs the sessions of these tests.
var secret = []byte("0123456789abcdef-secret-of-the-tests")

// options returns the least that a session needs.
func options() authz.Options {
	return authz.Options{Secret: func() ([]byte, error) { return secret, nil }}
}

// session returns a session identity on secret.
func session(t *testing.T, o authz.Options) *authz.Session {
	t.Helper()
	s, err := authz.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request returns a POST over TLS with header fields "Name: value".
func request(fields ...string) *http.Request {
	return with(httptest.NewRequest(http.MethodPost, "https://chat.example.com/api/chat", nil), fields...)
}

// plainRequest returns a POST in clear text.
func plainRequest(fields ...string) *http.Request {
	r := request(fields...)
	r.TLS = nil
	return r
}

func with(r *http.Request, fields ...string) *http.Request {
	if r.URL.Scheme == "https" && r.TLS == nil {
		r.TLS = &tls.ConnectionState{}
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// navigation is what a browser sends for a page.
func navigation(fields ...string) *http.Request {
	return request(append([]string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none"}, fields...)...)
}

// page is the header of an answer with a page.
func page(fields ...string) http.Header {
	h := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Set(name, value)
	}
	return h
}

// identify returns the caller of a request that must not fail.
func identify(t *testing.T, i authz.Identity, r *http.Request) authz.Caller {
	t.Helper()
	c, err := i.Identify(r)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	return c
}

// newcomer returns what a start by nobody gets, which must not fail.
func newcomer(t *testing.T, s *authz.Session, r *http.Request, key string) (authz.Caller, *http.Cookie) {
	t.Helper()
	c, cookie, err := s.Newcomer(r, key, []byte("fingerprint"))
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	return c, cookie
}

// carry returns the Cookie field of a browser that holds the cookie.
func carry(c *http.Cookie) string { return "Cookie: " + c.Name + "=" + c.Value }

// sameParty fails unless both are known and have one subject.
func sameParty(t *testing.T, got, want authz.Caller) {
	t.Helper()
	if !got.Known || !authz.Owns(got.Subject, want.Subject) {
		t.Errorf("got subject %+v (known %t), want %+v", got.Subject, got.Known, want.Subject)
	}
}

// otherParty fails unless both are known and differ.
func otherParty(t *testing.T, got, other authz.Caller) {
	t.Helper()
	if !got.Known || !other.Known || authz.Owns(got.Subject, other.Subject) {
		t.Errorf("got subject %+v (known %t), want another than %+v", got.Subject, got.Known, other.Subject)
	}
}
