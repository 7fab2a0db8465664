package caddymodule

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

var jwtOptions = map[string]option[*JWT]{
	"issuer":        {parse: text(func(j *JWT) *string { return &j.Issuer })},
	"audience":      {parse: list(func(j *JWT) *[]string { return &j.Audience })},
	"jwks":          {parse: text(func(j *JWT) *string { return &j.JWKS })},
	"key":           {parse: parseKey, repeatable: true},
	"algorithms":    {parse: list(func(j *JWT) *[]string { return &j.Algorithms })},
	"subject_claim": {parse: text(func(j *JWT) *string { return &j.SubjectClaim })},
	"tenant_claim":  {parse: text(func(j *JWT) *string { return &j.TenantClaim })},
	"scope_claim":   {parse: parseScopeClaim},
	"leeway":        {parse: offDuration(func(j *JWT) **caddy.Duration { return &j.Leeway })},
	"cookie":        {parse: text(func(j *JWT) *string { return &j.Cookie })},
	"query":         {parse: text(func(j *JWT) *string { return &j.Query })},
}

// parseJWT parses one issuer. The option stands once for each.
func (i *Identity) parseJWT(b *block) error {
	j := new(JWT)
	i.Issuers = append(i.Issuers, j)
	if b.NextArg() {
		return b.WrapErr(wrong("identity", "jwt "+b.Val(), identityAllowed))
	}
	inner := b.inner("identity")
	inner.scope = issuerScope(len(i.Issuers) - 1)
	inner.at[inner.scope+"identity"] = b.Token()
	return parseBlock(j, inner, jwtOptions)
}

// issuerScope parts the options of one issuer from those of another.
func issuerScope(n int) string { return strconv.Itoa(n) + ":" }

// parseKey parses an algorithm and a key. What the key is never shows.
func parseKey(j *JWT, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.Errf("identity.key takes an algorithm and a secret or PEM, found %d arguments", len(args))
	}
	j.Keys = append(j.Keys, JWTKey{Algorithm: args[0], Key: args[1]})
	return nil
}

const scopeClaimAllowed = "<claim> [read <scope>] [write <scope>]"

func parseScopeClaim(j *JWT, b *block) error {
	args := b.RemainingArgs()
	bad := b.WrapErr(wrong("identity.scope_claim", strings.Join(args, " "), scopeClaimAllowed))
	if len(args)%2 == 0 {
		return bad
	}
	j.ScopeClaim = args[0]
	for n := 1; n < len(args); n += 2 {
		switch {
		case args[n] == "read" && j.ReadScope == "":
			j.ReadScope = args[n+1]
		case args[n] == "write" && j.WriteScope == "":
			j.WriteScope = args[n+1]
		default:
			return bad
		}
	}
	return nil
}
