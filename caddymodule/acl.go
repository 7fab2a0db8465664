package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// ACL says who may read, stop and delete a run.
type ACL struct {
	// `owner` (default): the subject that started it. `claims`: the subjects of
	// its tenant whose tokens list its conversation. `backend`: whom the
	// application lets.
	Kind string `json:"kind,omitempty"`

	// `claims`: the claim that lists the conversations to read; `*` in it is all
	// of the tenant. `backend`: the URL to ask whether somebody may read, with
	// `{conversation_id}` and `{run_id}` in its path or query.
	Read string `json:"read,omitempty"`

	// The same for stopping, steering and deleting, and for a start in a
	// conversation that somebody else began.
	Write string `json:"write,omitempty"`

	// `backend`: the URL to ask whether somebody may start. It has no
	// `{run_id}`. Default: starts are not asked about.
	Start string `json:"start,omitempty"`

	// `backend`: how long a yes is remembered; 0 turns it off. Default: 5s.
	Cache *caddy.Duration `json:"cache,omitempty"`
}

// The kinds of acl.
const (
	aclOwner   = "owner"
	aclClaims  = "claims"
	aclBackend = "backend"

	aclAllowed   = "owner, claims { read <claim> write <claim> }, backend { read GET <url> write GET <url> }"
	askAllowed   = "GET <url>"
	claimAllowed = "the name of a claim"
)

var claimsACLOptions = map[string]option[*ACL]{
	"read":  {parse: text(func(a *ACL) *string { return &a.Read })},
	"write": {parse: text(func(a *ACL) *string { return &a.Write })},
}

var backendACLOptions = map[string]option[*ACL]{
	"read":  {parse: asking(func(a *ACL) *string { return &a.Read })},
	"write": {parse: asking(func(a *ACL) *string { return &a.Write })},
	"start": {parse: asking(func(a *ACL) *string { return &a.Start })},
	"cache": {parse: offDuration(func(a *ACL) **caddy.Duration { return &a.Cache })},
}

// asking parses a URL that is asked. The method is written out, so that nobody
// takes it for another one.
func asking[T any](field func(T) *string) func(T, *block) error {
	return func(t T, b *block) error {
		name := b.prefix + b.Val()
		args := b.RemainingArgs()
		if len(args) != 2 || args[0] != "GET" {
			return b.WrapErr(wrong(name, strings.Join(args, " "), askAllowed))
		}
		*field(t) = args[1]
		return nil
	}
}

func parseACL(h *Handler, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 1 {
		return b.Errf("acl takes one argument, found %d", len(args))
	}
	h.ACL = &ACL{Kind: args[0]}
	switch h.ACL.Kind {
	case aclClaims:
		return parseOptions(h.ACL, b, "acl", claimsACLOptions)
	case aclBackend:
		return parseOptions(h.ACL, b, "acl", backendACLOptions)
	}
	return nil // what kinds there are is checked later
}

// acl returns the configured rules or the default ones.
func (h *Handler) acl() ACL {
	var a ACL
	if h.ACL != nil {
		a = *h.ACL
	}
	if a.Kind == "" {
		a.Kind = aclOwner
	}
	return a
}

// checkACL looks at the rules by themselves and together with what they depend
// on.
func (h *Handler) checkACL() error {
	a, i := h.acl(), h.identity()
	errs := []error{a.check(), h.checkTicket()}
	if a.Kind == aclClaims && i.Kind != identityJWT {
		errs = append(errs, clash("acl", "claims come from tokens: acl claims goes with identity jwt, not with identity %s", i.Kind))
	}
	if a.Kind == aclClaims && slices.ContainsFunc(i.Issuers, func(j *JWT) bool { return j.TenantClaim == "" }) {
		errs = append(errs, clash("acl", "conversations of acl claims belong to a tenant: identity jwt needs a tenant_claim"))
	}
	return errors.Join(errs...)
}

func (a ACL) check() error {
	switch a.Kind {
	case aclOwner:
		return a.checkUnused("a block", a.Read != "" || a.Write != "" || a.Start != "" || a.Cache != nil)
	case aclClaims:
		return errors.Join(a.checkClaims(), a.checkUnused("start and cache", a.Start != "" || a.Cache != nil))
	case aclBackend:
		if _, err := a.backend(); err != nil {
			return clash("acl", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return nil
	}
	return wrong("acl", a.Kind, aclAllowed)
}

func (a ACL) checkUnused(what string, found bool) error {
	if found {
		return clash("acl", "%s does not take %s", a.Kind, what)
	}
	return nil
}

func (a ACL) checkClaims() error {
	var errs []error
	for _, claim := range []struct{ option, name string }{{"acl.read", a.Read}, {"acl.write", a.Write}} {
		if claim.name == "" || strings.ContainsAny(claim.name, " {}") {
			errs = append(errs, wrong(claim.option, claim.name, claimAllowed))
		}
	}
	return errors.Join(errs...)
}

func (a ACL) backend() (*authz.BackendPolicy, error) {
	cache := authz.DefaultAnswerLife
	if a.Cache != nil {
		cache = time.Duration(*a.Cache)
	}
	return authz.NewBackendPolicy(authz.BackendRules{Read: a.Read, Write: a.Write, Start: a.Start, Cache: cache})
}

// policy returns what decides.
func (a ACL) policy() (authz.Policy, error) {
	switch a.Kind {
	case aclClaims:
		return authz.ClaimsPolicy{Read: a.Read, Write: a.Write}, nil
	case aclBackend:
		p, err := a.backend()
		if err != nil {
			return nil, fmt.Errorf("setting up acl: %w", err)
		}
		return p, nil
	}
	return authz.OwnerPolicy{}, nil
}

const ticketAllowed = "off, or a duration up to 15m"

// checkTicket looks at tickets: one carries no credentials to ask a backend
// with.
func (h *Handler) checkTicket() error {
	switch d := time.Duration(h.Ticket); {
	case d < 0 || d > authz.MaxTicketLife:
		return wrong("ticket", words(d), ticketAllowed)
	case d > 0 && h.acl().Kind == aclBackend:
		return clash("ticket", "does not go with acl backend: who comes with a ticket has no credentials to ask the backend with")
	}
	return nil
}

// tickets returns what gives tickets out, or nil.
func (h *Handler) tickets() *authz.Tickets {
	if h.Ticket == 0 {
		return nil
	}
	return authz.NewTickets(h.secret, time.Duration(h.Ticket))
}
