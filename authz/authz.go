// Package authz decides who asks and whether they may. It knows nothing of
// runs: it turns a request into a [Caller] and compares callers with owners.
//
// It promises:
//
//  1. A missing or a bad credential never becomes somebody: it is an error, or
//     for session identities a caller without a subject.
//  2. Secrets are compared in constant time and never appear in an error.
//  3. A request that carries ambient credentials across sites is told apart
//     ([CrossSite]).
package authz

import (
	"errors"
	"net/http"
	"time"
)

// Subject is who a request comes from. Two issuers may use one sub, so a
// subject is always all three parts.
type Subject struct {
	Tenant string
	Issuer string
	Sub    string
}

// Caller is the answer to "who asks?".
type Caller struct {
	// Subject is zero when nobody could be told, which only session identities
	// allow.
	Subject Subject
	// Known tells that Subject is set.
	Known bool
	// Ambient tells that the credential is one that a browser adds by itself
	// (a cookie, basic authentication), so that writes need a CSRF defence.
	Ambient bool
	// Expires is when the credential ends; zero for never.
	Expires time.Time
	// Shared tells that the subject is not one party (identity anonymous): no
	// implicit retry, no limits per subject.
	Shared bool
}

// Identity establishes callers.
type Identity interface {
	// Identify tells who asks. [ErrNoCredentials] and [ErrBadCredentials] are
	// answered with 401.
	Identify(r *http.Request) (Caller, error)
	// Challenge is the value of WWW-Authenticate on a 401, or empty.
	Challenge(err error) string
}

// Starter is implemented by identities that can make a subject for a start
// that comes without one.
type Starter interface {
	// Newcomer returns the caller of a start whose request names nobody. key is
	// the idempotency key or empty; fingerprint stands for the whole request.
	// The cookie, if not nil, must be set on the answer.
	Newcomer(r *http.Request, key string, fingerprint []byte) (Caller, *http.Cookie, error)
	// PageLoad returns the cookie to set on the first page load, or nil. It is
	// asked when status and content type of the answer are known.
	PageLoad(r *http.Request, status int, contentType string) *http.Cookie
	// Strip removes the identity's own credential from a request that is about
	// to leave for upstream.
	Strip(h http.Header)
}

// Errors of identification. They say nothing about why, since the answer must
// not.
var (
	ErrNoCredentials  = errors.New("no credentials")
	ErrBadCredentials = errors.New("credentials are not valid")
)
