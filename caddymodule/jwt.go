package caddymodule

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// JWT is an issuer whose tokens are trusted. A token is accepted only if its
// issuer and audience are these, it has an expiry and a subject, and a key of
// the issuer verifies it. Texts may have placeholders such as `{env.NAME}` and
// `{file./run/secret}`, which are resolved when the configuration is loaded.
type JWT struct {
	// The `iss` of its tokens, byte for byte.
	Issuer string `json:"issuer,omitempty"`

	// What this site is called in `aud`. One of them must be there.
	Audience []string `json:"audience,omitempty"`

	// Where its keys are: an https URL of a JWK Set, which is fetched when first
	// needed and followed from then on, or a file, which may change.
	JWKS string `json:"jwks,omitempty"`

	// Its keys themselves, in place of `jwks`. Several of one algorithm are all
	// tried.
	Keys []JWTKey `json:"keys,omitempty"`

	// The algorithms that it may sign by. Default: those of `keys`; for `jwks`
	// RS256, PS256, ES256 and EdDSA.
	Algorithms []string `json:"algorithms,omitempty"`

	// The claim that names who it is. A name with dots may be a path into
	// objects. Default: sub.
	SubjectClaim string `json:"subject_claim,omitempty"`

	// The claim that names the tenant; tokens without it are refused. Default: no
	// tenants.
	TenantClaim string `json:"tenant_claim,omitempty"`

	// The claim that lists what a token is for, in words or an array; without the
	// scope that a request needs it gets 403. Default: every token is for
	// everything.
	ScopeClaim string `json:"scope_claim,omitempty"`

	// The scope that reading runs needs. Default: runs:read.
	ReadScope string `json:"read_scope,omitempty"`

	// The scope that starting, stopping and deleting runs needs. Default:
	// runs:write.
	WriteScope string `json:"write_scope,omitempty"`

	// How far the issuer's clock may be off, at most 1m. Default: 30s.
	Leeway *caddy.Duration `json:"leeway,omitempty"`

	// A cookie in which its tokens may stand, beside `Authorization: Bearer`.
	// Writes by it must come from this site's own pages. Default: none.
	Cookie string `json:"cookie,omitempty"`

	// A query parameter likewise. It reaches neither the backend nor the log of
	// this module, but it does reach the access log of the server. Default: none.
	Query string `json:"query,omitempty"`
}

// JWTKey is a key of an issuer.
type JWTKey struct {
	// What it verifies: RS256, PS256, ES256, EdDSA, HS256, or a variant for a
	// longer hash.
	Algorithm string `json:"algorithm,omitempty"`

	// A public key or certificate in PEM; for HS256, HS384 and HS512 a secret of
	// at least 32, 48 or 64 bytes.
	Key string `json:"key,omitempty"`
}

// The defaults of an issuer.
const (
	defaultSubjectClaim = "sub"
	defaultReadScope    = "runs:read"
	defaultWriteScope   = "runs:write"
	defaultLeeway       = 30 * time.Second
)

// checkIssuers looks at all issuers of identity jwt.
func (i Identity) checkIssuers() error {
	if len(i.Issuers) == 0 {
		return clash("identity", "jwt takes a block with an issuer, an audience and its keys")
	}
	var errs []error
	for n, j := range i.Issuers {
		err := j.check()
		if same := slices.IndexFunc(i.Issuers, func(o *JWT) bool { return o.Issuer == j.Issuer }); same < n && j.Issuer != "" {
			err = errors.Join(err, clash("identity.issuer", "%q stands twice: put what differs into one block", j.Issuer))
		}
		errs = append(errs, within(issuerScope(n), err))
	}
	return errors.Join(errs...)
}

// check tells every mistake of one issuer.
func (j *JWT) check() error {
	var errs []error
	if j.Issuer == "" {
		errs = append(errs, clash("identity.issuer", "is missing: the iss of the tokens"))
	}
	if len(j.Audience) == 0 || slices.Contains(j.Audience, "") {
		errs = append(errs, clash("identity.audience", "is missing: what the tokens call this site in aud"))
	}
	return errors.Join(append(errs, j.checkKeys(), j.checkAlgorithms(), j.checkClaims(), j.checkPlaces())...)
}

func (j *JWT) checkKeys() error {
	switch {
	case j.JWKS == "" && len(j.Keys) == 0:
		return clash("identity.jwks", "is missing: an https URL or a file; or name each key: key <algorithm> <secret or PEM>")
	case j.JWKS != "" && len(j.Keys) > 0:
		return clash("identity.key", "does not go with jwks: an issuer's keys are in one place")
	case strings.Contains(j.JWKS, "://") && !hasPlaceholder(j.JWKS):
		if err := keyset.CheckURL(j.JWKS); err != nil {
			return clash("identity.jwks", "%v", err)
		}
	}
	var errs []error
	for _, k := range j.Keys {
		if err := k.check(); err != nil {
			errs = append(errs, clash("identity.key", "%v", err))
		}
	}
	return errors.Join(errs...)
}

// errRequestKey: in a Caddyfile {file.name} is short for a part of the request's
// path, and nobody's request may say by which key it is judged.
var errRequestKey = errors.New("found a placeholder of the request, allowed: {env.NAME} or {file./path/to/key}")

// check looks at a key as it stands in the configuration. What placeholders
// resolve to is looked at when it is loaded.
func (k JWTKey) check() error {
	switch {
	case strings.Contains(k.Key, "{http."):
		return errRequestKey
	case hasPlaceholder(k.Key) && slices.Contains(keyset.Algorithms, k.Algorithm):
		return nil
	}
	_, err := keyset.NewKey(k.Algorithm, k.Key)
	return err
}

// algorithms are the configured ones or the default.
func (j *JWT) algorithms() []string {
	if len(j.Algorithms) > 0 {
		return j.Algorithms
	}
	if len(j.Keys) == 0 {
		return keyset.DefaultAlgorithms
	}
	var of []string
	for _, k := range j.Keys {
		if !slices.Contains(of, k.Algorithm) {
			of = append(of, k.Algorithm)
		}
	}
	return of
}

func (j *JWT) checkAlgorithms() error {
	var errs []error
	for _, alg := range j.Algorithms {
		switch {
		case !slices.Contains(keyset.Algorithms, alg):
			errs = append(errs, wrong("identity.algorithms", alg, strings.Join(keyset.Algorithms, ", ")))
		case j.JWKS != "" && keyset.IsSymmetric(alg):
			errs = append(errs, clash("identity.algorithms", "%s does not go with jwks, which has public keys", alg))
		}
	}
	for _, k := range j.Keys {
		if keyset.IsSymmetric(k.Algorithm) != keyset.IsSymmetric(j.Keys[0].Algorithm) {
			errs = append(errs, clash("identity.key", "an issuer has either secrets or public keys, found %s and %s", j.Keys[0].Algorithm, k.Algorithm))
		}
		if !slices.Contains(j.algorithms(), k.Algorithm) {
			errs = append(errs, clash("identity.algorithms", "lacks %s, which there is a key for", k.Algorithm))
		}
	}
	for _, alg := range j.algorithms() {
		if len(j.Keys) > 0 && !slices.ContainsFunc(j.Keys, func(k JWTKey) bool { return k.Algorithm == alg }) {
			errs = append(errs, clash("identity.algorithms", "has %s, which there is no key for", alg))
		}
	}
	return errors.Join(errs...)
}

func (j *JWT) checkClaims() error {
	if j.ScopeClaim == "" && (j.ReadScope != "" || j.WriteScope != "") {
		return clash("identity.scope_claim", "is missing: the claim that lists the scopes")
	}
	for _, scope := range []string{j.ReadScope, j.WriteScope} {
		// RFC 6749 section 3.3. It is quoted in WWW-Authenticate.
		if strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return wrong("identity.scope_claim", scope, "scopes of printable ASCII without space, quote and backslash")
		}
	}
	if j.Leeway != nil && (*j.Leeway < 0 || time.Duration(*j.Leeway) > jwt.MaxLeeway) {
		return wrong("identity.leeway", words(time.Duration(*j.Leeway)), "a duration up to "+words(jwt.MaxLeeway)+", or off")
	}
	return nil
}

func (j *JWT) checkPlaces() error {
	var errs []error
	if j.Cookie != "" && !isFieldName(j.Cookie) {
		errs = append(errs, wrong("identity.cookie", j.Cookie, "the name of a cookie"))
	}
	if j.Query != "" && !isFieldName(j.Query) {
		errs = append(errs, wrong("identity.query", j.Query, "the name of a query parameter, such as access_token"))
	}
	return errors.Join(errs...)
}

// inURLs reports whether tokens may stand in URLs.
func (i Identity) inURLs() bool {
	return slices.ContainsFunc(i.Issuers, func(j *JWT) bool { return j.Query != "" })
}
