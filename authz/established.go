package authz

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name of a subject or tenant, in bytes (OpenID Connect
// Core section 2 sets it for sub).
const maxName = 255

// Header takes subjects from a header field that a trusted front proxy sets.
type Header struct {
	// Subject is the name of the header field with the subject.
	Subject string
	// Tenant is the name of the header field with the tenant; empty for sites
	// without tenants. A request without a configured tenant is nobody's.
	Tenant string
	// Trusted tells whether the peer may set these fields; nil trusts nobody.
	Trusted func(*http.Request) bool
}

var _ Identity = (*Header)(nil)

// Identify implements [Identity].
func (h *Header) Identify(r *http.Request) (Caller, error) {
	if h.Trusted == nil || !h.Trusted(r) {
		return Caller{}, ErrNoCredentials
	}
	sub, err := headerName(r, h.Subject)
	if err != nil {
		return Caller{}, err
	}
	var tenant string
	if h.Tenant != "" {
		if tenant, err = headerName(r, h.Tenant); err != nil {
			return Caller{}, err
		}
	}
	return established(r, Subject{Tenant: tenant, Issuer: "header", Sub: sub}), nil
}

// Challenge implements [Identity].
func (*Header) Challenge(err error) string { return Challenge(err) }

// headerName returns the name in a header field. A field that is there twice
// has passed a proxy that adds its own and keeps the client's.
func headerName(r *http.Request, field string) (string, error) {
	values := r.Header.Values(field)
	switch {
	case len(values) == 0:
		return "", ErrNoCredentials
	case len(values) > 1 || !IsName(values[0]):
		return "", ErrBadCredentials
	}
	return values[0], nil
}

// Values takes subjects from what the server itself established before: the
// user of an authentication directive, a placeholder.
type Values struct {
	// Subject returns the subject of a request, or an empty string for nobody.
	Subject func(*http.Request) string
	// Tenant returns its tenant, or an empty string for none, which makes the
	// request nobody's. Nil is for sites without tenants.
	Tenant func(*http.Request) string
}

var _ Identity = (*Values)(nil)

// Identify implements [Identity].
func (v *Values) Identify(r *http.Request) (Caller, error) {
	sub, err := valueName(v.Subject(r))
	if err != nil {
		return Caller{}, err
	}
	var tenant string
	if v.Tenant != nil {
		if tenant, err = valueName(v.Tenant(r)); err != nil {
			return Caller{}, err
		}
	}
	return established(r, Subject{Tenant: tenant, Issuer: "caddy", Sub: sub}), nil
}

// Challenge implements [Identity].
func (*Values) Challenge(err error) string { return Challenge(err) }

func valueName(value string) (string, error) {
	switch {
	case value == "":
		return "", ErrNoCredentials
	case !IsName(value):
		return "", ErrBadCredentials
	}
	return value, nil
}

func established(r *http.Request, s Subject) Caller {
	return Caller{Subject: s, Known: true, Ambient: mayBeAmbient(r)}
}

// IsName reports whether s can name a subject or a tenant.
func IsName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Anonymous is the identity of sites that tell nobody apart: all callers are
// one shared subject. It is for development.
type Anonymous struct{}

var _ Identity = Anonymous{}

// Identify implements [Identity].
func (Anonymous) Identify(r *http.Request) (Caller, error) {
	s := Subject{Issuer: "anonymous", Sub: "anonymous"}
	return Caller{Subject: s, Known: true, Shared: true, Ambient: IsAmbient(r)}, nil
}

// Challenge implements [Identity]: everybody is welcome.
func (Anonymous) Challenge(error) string { return "" }
