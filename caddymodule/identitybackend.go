package caddymodule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// AskIdentity is the question to the application who somebody is.
type AskIdentity struct {
	// The URL that answers, asked with the Cookie and Authorization of whoever
	// wants to be known. Redirects are not followed.
	URL string `json:"url,omitempty"`

	// Where the answer names the subject: the path of a member of its JSON body
	// (`user.id`), or with `subject_header` a header field.
	Subject string `json:"subject,omitempty"`

	// The header field of the answer that names the subject.
	SubjectHeader string `json:"subject_header,omitempty"`

	// The same for the tenant. Default: no tenants.
	Tenant string `json:"tenant,omitempty"`

	// The header field of the answer that names the tenant.
	TenantHeader string `json:"tenant_header,omitempty"`

	// How long an answer is remembered; 0 turns it off. Default: 30s.
	Cache *caddy.Duration `json:"cache,omitempty"`
}

const attributeAllowed = "<JSON path>, header <name>"

var askOptions = map[string]option[*AskIdentity]{
	"subject": {parse: attribute(func(a *AskIdentity) (path, header *string) { return &a.Subject, &a.SubjectHeader })},
	"tenant":  {parse: attribute(func(a *AskIdentity) (path, header *string) { return &a.Tenant, &a.TenantHeader })},
	"cache":   {parse: offDuration(func(a *AskIdentity) **caddy.Duration { return &a.Cache })},
}

// attribute parses a place in an answer.
func attribute(fields func(*AskIdentity) (path, header *string)) func(*AskIdentity, *block) error {
	return func(a *AskIdentity, b *block) error {
		name := b.prefix + b.Val()
		path, header := fields(a)
		switch args := b.RemainingArgs(); {
		case len(args) == 1 && args[0] != "header":
			*path = args[0]
		case len(args) == 2 && args[0] == "header":
			*header = args[1]
		default:
			return b.WrapErr(wrong(name, strings.Join(args, " "), attributeAllowed))
		}
		return nil
	}
}

// parseAskIdentity parses what follows "identity backend".
func parseAskIdentity(i *Identity, b *block, args []string) error {
	if len(args) != 2 || args[0] != "GET" {
		return b.WrapErr(wrong("identity", strings.Join(append([]string{identityBackend}, args...), " "), identityAllowed))
	}
	i.Backend = &AskIdentity{URL: args[1]}
	return parseOptions(i.Backend, b, "identity", askOptions)
}

func (a *AskIdentity) check() error {
	if a == nil {
		return wrong("identity", identityBackend, "backend GET <url> { subject "+attributeAllowed+" }")
	}
	var errs []error
	for _, place := range []struct{ option, path, header string }{
		{"identity.subject", a.Subject, a.SubjectHeader},
		{"identity.tenant", a.Tenant, a.TenantHeader},
	} {
		switch {
		case place.path != "" && place.header != "":
			errs = append(errs, clash(place.option, "a JSON path and a header do not go together"))
		case place.header != "" && !isFieldName(place.header):
			errs = append(errs, wrong(place.option, place.header, attributeAllowed))
		case strings.ContainsAny(place.path, " {}"):
			errs = append(errs, wrong(place.option, place.path, attributeAllowed))
		}
	}
	if _, err := a.identity(); err != nil {
		errs = append(errs, clash("identity", "backend: %s", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return errors.Join(errs...)
}

// identity returns what asks.
func (a *AskIdentity) identity() (*authz.BackendIdentity, error) {
	cache := authz.DefaultIdentityLife
	if a.Cache != nil {
		cache = time.Duration(*a.Cache)
	}
	b, err := authz.NewBackendIdentity(authz.BackendOptions{
		URL:     a.URL,
		Subject: authz.Attribute{Path: a.Subject, Header: a.SubjectHeader},
		Tenant:  authz.Attribute{Path: a.Tenant, Header: a.TenantHeader},
		Cache:   cache,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up identity backend: %w", err)
	}
	return b, nil
}
