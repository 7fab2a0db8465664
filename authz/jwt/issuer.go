package jwt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// MaxLeeway is the most that clocks may differ (RFC 7519 section 4.1.4: "no more
// than a few minutes").
const MaxLeeway = time.Minute

// Issuer is one whose tokens are trusted.
type Issuer struct {
	// Name is its iss, compared byte for byte.
	Name string
	// Audience are the names of this site; aud must have one of them.
	Audience []string
	// Keys are its keys, and Algorithms those that it may sign by: either public
	// ones or HMACs.
	Keys       keyset.Set
	Algorithms []string
	// Subject is the claim that names who it is, usually sub.
	Subject string
	// Tenant is the claim that names the tenant; empty for sites without. A token
	// without a configured one is refused.
	Tenant string
	// Scope is the claim that lists what a token allows: Read to read runs, Write
	// to start, stop and delete them. Empty: every token allows all.
	Scope, Read, Write string
	// Leeway is how far clocks may differ, at most [MaxLeeway].
	Leeway time.Duration
	// Cookie and Query are where its tokens may stand beside Authorization; empty
	// for nowhere.
	Cookie, Query string
}

// validate finds what golang-jwt would take for "do not check".
func (i Issuer) validate() error {
	symmetric := slices.ContainsFunc(i.Algorithms, keyset.IsSymmetric)
	unknown := slices.ContainsFunc(i.Algorithms, func(alg string) bool { return !slices.Contains(keyset.Algorithms, alg) })
	switch {
	case i.Name == "":
		return errors.New("it has no name")
	case len(i.Audience) == 0 || slices.Contains(i.Audience, ""):
		return errors.New("its tokens have no audience here")
	case i.Keys == nil || i.Subject == "":
		return errors.New("it has no keys or no claim for the subject")
	case len(i.Algorithms) == 0 || unknown:
		return fmt.Errorf("its algorithms are %q", i.Algorithms)
	case symmetric && slices.ContainsFunc(i.Algorithms, func(alg string) bool { return !keyset.IsSymmetric(alg) }):
		return errors.New("it signs by public keys and by secrets")
	case i.Scope != "" && (i.Read == "" || i.Write == ""):
		return errors.New("its scopes have no names")
	case i.Leeway < 0 || i.Leeway > MaxLeeway:
		return fmt.Errorf("its leeway is %v", i.Leeway)
	}
	return nil
}

// issuer verifies the tokens of an Issuer.
type issuer struct {
	Issuer
	parser *gojwt.Parser
}

func newIssuer(i Issuer) *issuer {
	return &issuer{Issuer: i, parser: gojwt.NewParser(
		gojwt.WithValidMethods(i.Algorithms), gojwt.WithStrictDecoding(),
		gojwt.WithIssuer(i.Name), gojwt.WithAudience(i.Audience...),
		gojwt.WithExpirationRequired(), gojwt.WithIssuedAt(), gojwt.WithLeeway(i.Leeway),
	)}
}

// verify returns whom a token speaks for. The issuer that it claims only
// decides whose rules and keys it is held to.
func (i *Identity) verify(ctx context.Context, t token) (authz.Caller, error) {
	h, unverified, err := peek(t.text)
	if err != nil {
		return authz.Caller{}, err
	}
	name, _ := unverified.GetIssuer()
	by, ok := i.issuers[name]
	switch {
	case !ok:
		return authz.Caller{}, errIssuer
	case t.in == inCookie && by.Cookie != t.name, t.in == inQuery && by.Query != t.name:
		return authz.Caller{}, errPlace
	}
	c, err := by.verify(ctx, h, t.text)
	if err != nil {
		return authz.Caller{}, err
	}
	return by.caller(h, c)
}

// verify checks signature and registered claims of a token.
func (i *issuer) verify(ctx context.Context, h head, text string) (*claims, error) {
	if !slices.Contains(i.Algorithms, h.alg) {
		return nil, errAlgorithm
	}
	found, err := i.Keys.Lookup(ctx, h.kid, h.alg)
	switch {
	case errors.Is(err, keyset.ErrUnavailable):
		return nil, fmt.Errorf("%w: %w", authz.ErrUnavailable, err)
	case err != nil:
		return nil, errKey
	}
	keys := gojwt.VerificationKeySet{Keys: make([]gojwt.VerificationKey, len(found))}
	for n, key := range found {
		keys.Keys[n] = key
	}
	c := new(claims)
	if _, err := i.parser.ParseWithClaims(text, c, func(*gojwt.Token) (any, error) { return keys, nil }); err != nil {
		return nil, refusalOf(err)
	}
	return c, nil
}

// reasons are the words for errors of golang-jwt, whose own text may quote the
// token.
var reasons = []struct {
	err error
	why refusalError
}{
	{gojwt.ErrTokenSignatureInvalid, errSignature},
	{gojwt.ErrTokenMalformed, errForm},
	{gojwt.ErrTokenExpired, errExpired},
	{gojwt.ErrTokenNotValidYet, errEarly},
	{gojwt.ErrTokenUsedBeforeIssued, errEarly},
	{gojwt.ErrTokenInvalidAudience, errAudience},
}

func refusalOf(err error) refusalError {
	if why, ok := errors.AsType[refusalError](err); ok {
		return why
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.why
		}
	}
	return errClaims
}

// caller returns whom verified claims speak for.
func (i *issuer) caller(h head, c *claims) (authz.Caller, error) {
	if err := c.suits(h.typ, i.Scope); err != nil {
		return authz.Caller{}, err
	}
	s := authz.Subject{Issuer: i.Name}
	var ok bool
	if s.Sub, ok = c.name(i.Subject); !ok {
		return authz.Caller{}, errSubject
	}
	if i.Tenant != "" {
		if s.Tenant, ok = c.name(i.Tenant); !ok {
			return authz.Caller{}, errTenant
		}
	}
	exp, err := c.GetExpirationTime()
	if err != nil || exp == nil {
		return authz.Caller{}, errClaims
	}
	return authz.Caller{Subject: s, Known: true, Expires: exp.Add(i.Leeway), Claims: authz.ClaimsOf(c.members)}, nil
}

// permit reports whether claims allow to read runs, or to start and command
// them.
func (i *issuer) permit(c *authz.Claims, verb authz.Verb) error {
	if i.Scope == "" {
		return nil
	}
	needed := i.Write
	if verb == authz.Read {
		needed = i.Read
	}
	if !slices.Contains(c.Values(i.Scope), needed) {
		return &authz.ScopeError{Scope: needed}
	}
	return nil
}
