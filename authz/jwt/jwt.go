// Package jwt is the identity of sites whose users come with JSON Web Tokens
// (RFC 7519, RFC 8725, RFC 9068).
//
// It promises:
//
//  1. Nobody is known without a signature that a key of the token's own issuer
//     verifies, by an algorithm that both the issuer's list and the key allow.
//     What is read before that only chooses the issuer. Keys come from the
//     configuration, never from a token.
//  2. A token is good only if iss is the issuer's name, aud has an audience of
//     this site, exp is there, and exp, nbf and iat agree with the clock within
//     the leeway. Fractions of seconds count.
//  3. What cannot be understood is refused: an unknown type, critical
//     extensions, encryption, nesting, a sender's constraint, members that stand
//     twice, text that is not UTF-8, a subject or tenant that is not a name.
//  4. All that is wrong with tokens is one answer. The reason is logged for
//     debugging, and counted: one of a few words, and never a part of a token.
//  5. Tokens of one request that are good have one subject, or it is refused.
//  6. Without the keys of an issuer nobody is let in, and nobody is told that
//     their token is bad: that is authz.ErrUnavailable.
package jwt

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// Identity takes subjects from tokens.
type Identity struct {
	issuers map[string]*issuer
	sources []source
	log     *slog.Logger
}

var (
	_ authz.Identity    = (*Identity)(nil)
	_ authz.TokenBearer = (*Identity)(nil)
	_ authz.Reasoned    = refusalError("")
)

// New returns the identity of a site that trusts these issuers, or what makes
// them unsafe to trust.
func New(issuers []Issuer, log *slog.Logger) (*Identity, error) {
	if len(issuers) == 0 {
		return nil, errors.New("no issuer of tokens is trusted")
	}
	i := &Identity{issuers: make(map[string]*issuer, len(issuers)), sources: []source{{in: inHeader}}, log: log}
	for _, trusted := range issuers {
		if err := trusted.validate(); err != nil {
			return nil, fmt.Errorf("issuer %q: %w", trusted.Name, err)
		}
		if _, twice := i.issuers[trusted.Name]; twice {
			return nil, fmt.Errorf("issuer %q stands twice", trusted.Name)
		}
		i.issuers[trusted.Name] = newIssuer(trusted)
		i.addSource(inQuery, trusted.Query)
		i.addSource(inCookie, trusted.Cookie)
	}
	return i, nil
}

// Identify implements [authz.Identity].
func (i *Identity) Identify(r *http.Request) (authz.Caller, error) {
	caller, err := i.identify(r)
	if why, ok := errors.AsType[refusalError](err); ok {
		i.log.Debug("token was refused", slog.String("reason", string(why)))
	}
	return caller, err
}

// identify takes the caller from the first token of a request. Others must not
// speak for somebody else; that they are no longer good does not matter.
func (i *Identity) identify(r *http.Request) (authz.Caller, error) {
	tokens, err := i.tokensOf(r)
	if err != nil {
		return authz.Caller{}, err
	}
	if len(tokens) == 0 {
		return authz.Caller{}, authz.ErrNoCredentials
	}
	caller, err := i.verify(r.Context(), tokens[0])
	if err != nil {
		return authz.Caller{}, err
	}
	for _, other := range tokens[1:] {
		if c, err := i.verify(r.Context(), other); err == nil && c.Subject != caller.Subject {
			return authz.Caller{}, errConflict
		}
	}
	// A token in a header was put there by a page or a program that knows it. One
	// in a URL may be an attacker's own, for which the cookies beside it are not.
	caller.Ambient = tokens[0].in == inCookie || tokens[0].in == inQuery && authz.IsAmbient(r)
	return caller, nil
}

// Challenge implements [authz.Identity].
func (*Identity) Challenge(err error) string { return authz.Challenge(err) }

// Permit implements [authz.TokenBearer].
func (i *Identity) Permit(c authz.Caller, verb authz.Verb) error {
	by, ok := i.issuers[c.Subject.Issuer]
	if !ok {
		return authz.ErrScope
	}
	return by.permit(c.Claims, verb)
}

// refusalError is why a token is not good. It is an [authz.ErrBadCredentials]. There
// are no others than these.
type refusalError string

const (
	errForm      refusalError = "form"
	errSize      refusalError = "size"
	errHeader    refusalError = "header"
	errKind      refusalError = "kind"
	errIssuer    refusalError = "issuer"
	errPlace     refusalError = "place"
	errAlgorithm refusalError = "algorithm"
	errKey       refusalError = "key"
	errSignature refusalError = "signature"
	errExpired   refusalError = "expired"
	errEarly     refusalError = "not_yet_valid"
	errAudience  refusalError = "audience"
	errClaims    refusalError = "claims"
	errSubject   refusalError = "subject"
	errTenant    refusalError = "tenant"
	errConflict  refusalError = "conflict"
)

// Error implements error.
func (r refusalError) Error() string { return "token was refused: " + string(r) }

// Reason implements [authz.Reasoned].
func (r refusalError) Reason() string { return string(r) }

// Is reports whether target is what all refusals are.
func (refusalError) Is(target error) bool { return target == authz.ErrBadCredentials }
