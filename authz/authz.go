// Package authz decides who asks and whether they may. It knows nothing of
// runs: it turns a request into a [Caller] and compares callers with owners.
//
// It promises:
//
//  1. A missing or a bad credential never becomes somebody: it is an error, or
//     for session identities a caller without a subject. A session cookie that
//     was changed in any way is a missing one.
//  2. Secrets are compared in constant time; neither they nor credentials
//     appear in an error.
//  3. A request that carries ambient credentials is told apart
//     ([Caller].Ambient), and so is one that comes from another site
//     ([CrossSite]).
//  4. Nothing that a client can write decides how far it is trusted: whether it
//     came over TLS or through a trusted proxy is the server's word
//     ([Options].Secure, [Header].Trusted), never that of a forwarding header.
//  5. The session cookie does not reach upstream, and every other byte of the
//     request's cookies does.
//  6. Origins are compared whole, and "null" is never one of ours.
//  7. Credentials that the application issued do not leave this package in
//     clear: subjects made of them are keyed hashes.
//  8. What a [Seal] vouches for was sealed by a server with the same key, for
//     this method and path, moments ago.
package authz

import (
	"errors"
	"net/http"
	"time"
)

// Subject is who a request comes from. Two issuers may use one sub, so a
// subject is always all three parts. Identities without an issuer use their
// own kind: session, header, caddy or anonymous.
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
	// Ambient tells that the request carries a credential that a browser adds by
	// itself (a cookie, basic authentication), so that writes need a CSRF
	// defence. It may be set on a caller that is not known: the application's own
	// cookies travel with the run that such a caller starts.
	Ambient bool
	// Expires is when the credential is no longer accepted, the leeway of clocks
	// included; zero for never.
	Expires time.Time
	// Claims are those of the token that named the subject; nil for credentials
	// without claims.
	Claims *Claims
	// Shared tells that the subject is not one party (identity anonymous): no
	// implicit retry, no limits per subject.
	Shared bool
}

// Identity establishes callers.
type Identity interface {
	// Identify tells who asks. [ErrNoCredentials] and [ErrBadCredentials] are
	// answered with 401, [ErrUnavailable] with 503.
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
	// asked when status and header of the answer are known.
	PageLoad(r *http.Request, status int, header http.Header) *http.Cookie
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

// ErrUnavailable means that it cannot be told now who asks: what the identity
// depends on did not answer. It is wrapped with the reason.
var ErrUnavailable = errors.New("identity is unavailable")

// ErrCrossSite means that a browser sent the request for a page of another
// site; it is answered with 403.
var ErrCrossSite = errors.New("request comes from another site")

// ErrScope means that the credentials are good and do not allow what was asked
// for; it is answered with 403. A [ScopeError] tells what they lack.
var ErrScope = errors.New("credentials do not allow this")

// ScopeError is an [ErrScope] with the scope that is needed, which is no secret
// (RFC 6750 section 3.1).
type ScopeError struct{ Scope string }

// Error implements error.
func (e *ScopeError) Error() string { return ErrScope.Error() + ": scope " + e.Scope + " is needed" }

// Is reports whether target is ErrScope.
func (*ScopeError) Is(target error) bool { return target == ErrScope }

// TokenBearer is implemented by identities whose credentials are tokens: they
// are renewed while their subject stays, may stand in the URL, and may allow
// some operations only.
type TokenBearer interface {
	// DropTokens removes the fields and cookies that carry tokens. What is left
	// stands for the request, whichever token it came with.
	DropTokens(h http.Header)
	// StripQuery returns a raw query without tokens, and every other byte of it:
	// tokens in URLs leave neither for upstream nor for a log.
	StripQuery(raw string) string
	// Permit returns an [ErrScope] if the caller's token is not for that.
	Permit(c Caller, verb Verb) error
}

// Challenge is the challenge of RFC 6750 section 3, for tokens, and for
// identities that sit behind something that knows the real scheme. Basic would
// make browsers ask for a password that nobody has.
func Challenge(err error) string {
	const none = `Bearer realm="agent runs"`
	if lacking, ok := errors.AsType[*ScopeError](err); ok {
		return none + `, error="insufficient_scope", scope="` + lacking.Scope + `"`
	}
	if errors.Is(err, ErrBadCredentials) {
		return none + `, error="invalid_token"`
	}
	return none
}
