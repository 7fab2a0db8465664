package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
)

// Identity says who owns a run.
type Identity struct {
	// `session` (default) makes each browser a subject by a signed cookie, and
	// each script by the credential it sends; `header` takes the subject from a
	// header field that a trusted front proxy sets; `caddy` from a placeholder
	// that a handler before this one sets; `backend` asks the application who a
	// request comes from; `anonymous` tells nobody apart and is
	// for development only; `jwt` takes it from a signed token.
	Kind string `json:"kind,omitempty"`

	// `session`: the key that signs cookies, 32 bytes or more, the same on all
	// instances. Placeholders such as `{env.SECRET}` and `{file./run/secret}` are
	// resolved when the configuration is loaded. Default: made once and kept in
	// Caddy's storage.
	Secret string `json:"secret,omitempty"`

	// `session`: cookies of the application that change the subject when they
	// change, so that a logout does.
	BindCookies []string `json:"bind_cookies,omitempty"`

	// `session`: the same for request headers.
	BindHeaders []string `json:"bind_headers,omitempty"`

	// `session`: `lax` (default), or `none` for pages inside pages of other
	// sites.
	SameSite string `json:"same_site,omitempty"`

	// `header`: the header field with the subject. `caddy`: placeholders that
	// make the subject, by default `{http.auth.user.id}`.
	Subject string `json:"subject,omitempty"`

	// The same for the tenant. Default: no tenants.
	Tenant string `json:"tenant,omitempty"`

	// `backend`: how the application is asked.
	Backend *AskIdentity `json:"backend,omitempty"`

	// `jwt`: the issuers whose tokens are trusted.
	Issuers []*JWT `json:"issuers,omitempty"`
}

// The kinds of identity.
const (
	identitySession   = "session"
	identityHeader    = "header"
	identityCaddy     = "caddy"
	identityBackend   = "backend"
	identityJWT       = "jwt"
	identityAnonymous = "anonymous"

	identityAllowed = "session, header <subject header> [<tenant header>], caddy [<placeholder>] [tenant <placeholder>], backend GET <url> { subject <JSON path> }, jwt { ... }, anonymous"
	defaultSubject  = "{http.auth.user.id}"
)

// identity returns the configured identity or the default one.
func (h *Handler) identity() Identity {
	var i Identity
	if h.Identity != nil {
		i = *h.Identity
	}
	if i.Kind == "" {
		i.Kind = identitySession
	}
	if i.Kind == identityCaddy && i.Subject == "" {
		i.Subject = defaultSubject
	}
	return i
}

func (i Identity) check() error {
	switch i.Kind {
	case identitySession:
		return errors.Join(i.checkUnused(), i.checkSecret(), i.checkSameSite(), i.checkBind())
	case identityHeader:
		return errors.Join(i.checkUnused(), i.checkFields())
	case identityCaddy:
		return errors.Join(i.checkUnused(), i.checkPlaceholders())
	case identityBackend:
		return errors.Join(i.checkUnused(), i.Backend.check())
	case identityAnonymous:
		return i.checkUnused()
	case identityJWT:
		return errors.Join(i.checkUnused(), i.checkIssuers())
	}
	return wrong("identity", i.Kind, identityAllowed)
}

// checkUnused finds options of another kind of identity.
func (i Identity) checkUnused() error {
	var errs []error
	unused := func(option, kinds string, set bool) {
		if set && !strings.Contains(kinds, i.Kind) {
			errs = append(errs, clash("identity."+option, "belongs to identity %s, not to %s", kinds, i.Kind))
		}
	}
	unused("secret", identitySession, i.Secret != "")
	unused("bind", identitySession, len(i.BindCookies)+len(i.BindHeaders) > 0)
	unused("same_site", identitySession, i.SameSite != "")
	unused("subject", identityHeader+" and "+identityCaddy, i.Subject != "")
	unused("backend", identityBackend, i.Backend != nil)
	unused("issuer", identityJWT, len(i.Issuers) > 0)
	unused("tenant", identityHeader+" and "+identityCaddy, i.Tenant != "")
	return errors.Join(errs...)
}

// wantKey never shows what was found: it is a secret.
const wantKey = "allowed: 32 bytes or more, {env.NAME} or {file./path/to/secret}"

// checkSecret looks at a secret as it stands in the configuration. What
// placeholders resolve to is looked at when it is loaded.
func (i Identity) checkSecret() error {
	switch {
	case i.Secret == "":
		return nil
	case strings.Contains(i.Secret, "{http."):
		// In a Caddyfile {file.name} is short for a part of the request's path.
		return clash("identity.secret", "found a placeholder of the request, %s", wantKey)
	case !strings.Contains(i.Secret, "{") && len(i.Secret) < authz.MinSecret:
		return clash("identity.secret", "found %d bytes, %s", len(i.Secret), wantKey)
	}
	return nil
}

// expandSecret resolves the placeholders of a configured secret.
func (i Identity) expandSecret() ([]byte, error) {
	text, err := caddy.NewReplacer().ReplaceOrErr(i.Secret, true, true)
	if err != nil {
		return nil, clash("identity.secret", "%v", err)
	}
	if len(text) < authz.MinSecret {
		return nil, clash("identity.secret", "found %d bytes, %s", len(text), wantKey)
	}
	return []byte(text), nil
}

func (i Identity) checkSameSite() error {
	if i.SameSite != "" && i.SameSite != "lax" && i.SameSite != "none" {
		return wrong("identity.same_site", i.SameSite, "lax, none")
	}
	return nil
}

func (i Identity) checkBind() error {
	unloaded := func() ([]byte, error) { return nil, errors.ErrUnsupported }
	if _, err := authz.NewSession(authz.Options{Secret: unloaded, Bind: i.bind()}); err != nil {
		return clash("identity.bind", "%v", err)
	}
	return nil
}

func (i Identity) bind() []authz.Source {
	var bind []authz.Source
	for _, name := range i.BindCookies {
		bind = append(bind, authz.Source{In: authz.InCookie, Name: name})
	}
	for _, name := range i.BindHeaders {
		bind = append(bind, authz.Source{In: authz.InHeader, Name: name})
	}
	return bind
}

func (i Identity) checkFields() error {
	if !isFieldName(i.Subject) {
		return wrong("identity", i.Subject, "header <subject header> [<tenant header>]")
	}
	if i.Tenant != "" && !isFieldName(i.Tenant) {
		return wrong("identity", i.Tenant, "header <subject header> [<tenant header>]")
	}
	return nil
}

func (i Identity) checkPlaceholders() error {
	for _, text := range []string{i.Subject, i.Tenant} {
		if text != "" && !hasPlaceholder(text) {
			// The same text for all requests would make all users one.
			return wrong("identity", text, "caddy [<placeholder>] [tenant <placeholder>], such as {http.auth.user.id}")
		}
	}
	return nil
}

// establish returns what tells callers apart.
func (i Identity) establish(secret func() ([]byte, error), tokens *jwt.Identity) (authz.Identity, error) {
	switch i.Kind {
	case identityJWT:
		return tokens, nil
	case identityHeader:
		return &authz.Header{Subject: i.Subject, Tenant: i.Tenant, Trusted: fromTrustedProxy}, nil
	case identityCaddy:
		v := &authz.Values{Subject: resolver(i.Subject)}
		if i.Tenant != "" {
			v.Tenant = resolver(i.Tenant)
		}
		return v, nil
	case identityBackend:
		return i.Backend.identity()
	case identityAnonymous:
		return authz.Anonymous{}, nil
	}
	s, err := authz.NewSession(authz.Options{
		Secret: secret, Bind: i.bind(), SameSiteNone: i.SameSite == "none", Secure: overTLS,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up sessions: %w", err)
	}
	return s, nil
}

// resolver returns a function that resolves placeholders for a request. If one
// of them is empty the whole is: two half-known users must not become one.
func resolver(template string) func(*http.Request) string {
	return func(r *http.Request) string {
		text, err := replacerOf(r).ReplaceOrErr(template, true, true)
		if err != nil {
			return ""
		}
		return text
	}
}

// fromTrustedProxy reports whether the peer is one of Caddy's trusted_proxies.
func fromTrustedProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// overTLS reports whether the client speaks TLS, to us or to a trusted proxy.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || fromTrustedProxy(r) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// replacerOf returns the replacer of a request.
func replacerOf(r *http.Request) *caddy.Replacer {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return caddy.NewReplacer()
	}
	return repl
}

// hasPlaceholder reports whether text has a {placeholder}.
func hasPlaceholder(text string) bool {
	_, rest, open := strings.Cut(text, "{")
	name, _, closed := strings.Cut(rest, "}")
	return open && closed && name != ""
}
