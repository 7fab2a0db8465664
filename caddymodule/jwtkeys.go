package caddymodule

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/jwt"
	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// remoteKeys holds one key set per URL for all configurations of this process,
// so that a reload does not ask the issuer again.
var remoteKeys = caddy.NewUsagePool()

// remoteSet is a key set that outlives configurations, as its log does.
type remoteSet struct {
	*keyset.Remote
	log *followingLog
}

// Destruct implements caddy.Destructor.
func (s *remoteSet) Destruct() error {
	s.Close()
	return nil
}

// loadTokens resolves what the issuers of identity jwt are. It asks nobody:
// `caddy validate` does this too.
func (h *Handler) loadTokens() error {
	if h.identity().Kind != identityJWT {
		return nil
	}
	if err := h.identity().check(); err != nil { // Caddy validates only afterwards
		return err
	}
	var issuers []jwt.Issuer
	for _, j := range h.identity().Issuers {
		i, err := h.loadIssuer(j)
		if err != nil {
			return err
		}
		issuers = append(issuers, i)
	}
	var err error
	h.tokens, err = jwt.New(issuers, h.log)
	return err
}

func (h *Handler) loadIssuer(j *JWT) (jwt.Issuer, error) {
	i := jwt.Issuer{
		Algorithms: j.algorithms(), Subject: cmp.Or(j.SubjectClaim, defaultSubjectClaim), Tenant: j.TenantClaim,
		Scope: j.ScopeClaim, Read: cmp.Or(j.ReadScope, defaultReadScope), Write: cmp.Or(j.WriteScope, defaultWriteScope),
		Leeway: defaultLeeway, Cookie: j.Cookie, Query: j.Query,
	}
	if j.Leeway != nil {
		i.Leeway = time.Duration(*j.Leeway)
	}
	var err error
	if i.Name, err = expandOption("identity.issuer", j.Issuer); err != nil {
		return i, err
	}
	for _, audience := range j.Audience {
		if audience, err = expandOption("identity.audience", audience); err != nil {
			return i, err
		}
		i.Audience = append(i.Audience, audience)
	}
	i.Keys, err = h.loadKeys(j)
	return i, err
}

// loadKeys finds the keys of an issuer.
func (h *Handler) loadKeys(j *JWT) (keyset.Set, error) {
	if j.JWKS == "" {
		return loadStatic(j.Keys)
	}
	place, err := expandOption("identity.jwks", j.JWKS)
	if err != nil {
		return nil, err
	}
	if strings.Contains(place, "://") {
		return h.loadRemote(place)
	}
	file, err := keyset.NewFile(place, h.log)
	if err != nil {
		return nil, clash("identity.jwks", "%v", err)
	}
	return file, nil
}

func loadStatic(keys []JWTKey) (keyset.Static, error) {
	var static keyset.Static
	for _, k := range keys {
		text, err := expandOption("identity.key", k.Key)
		if err != nil {
			return nil, err
		}
		key, err := keyset.NewKey(k.Algorithm, text)
		if err != nil {
			return nil, clash("identity.key", "%v", err)
		}
		static = append(static, key)
	}
	return static, nil
}

// loadRemote takes a reference to the key set at a URL, which Cleanup gives
// back.
func (h *Handler) loadRemote(url string) (keyset.Set, error) {
	v, _, err := remoteKeys.LoadOrNew(url, func() (caddy.Destructor, error) {
		log := newFollowingLog()
		set, err := keyset.NewRemote(url, nil, log.Logger)
		return &remoteSet{Remote: set, log: log}, err
	})
	if err != nil {
		return nil, clash("identity.jwks", "%v", err)
	}
	h.remotes = append(h.remotes, url)
	set, ok := v.(*remoteSet)
	if !ok {
		return nil, fmt.Errorf("taking the key set of an issuer: got a %T", v)
	}
	set.log.follow(h.log)
	return set, nil
}

// giveKeysBack gives the key sets back.
func (h *Handler) giveKeysBack() {
	for _, url := range h.remotes {
		if _, err := remoteKeys.Delete(url); err != nil {
			h.log.Warn("closing a key set failed", slog.Any("error", err))
		}
	}
	h.remotes = nil
}

// expandOption resolves the placeholders of an option. One that is empty or unknown
// is an error.
func expandOption(option, text string) (string, error) {
	resolved, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", clash(option, "%v", err)
	}
	return strings.TrimSuffix(resolved, "\n"), nil
}
