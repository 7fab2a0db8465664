package authz

import (
	"net/http"
	"strings"
	"time"
)

// The two names of the session cookie. Browsers take a __Host- cookie only
// over TLS, from the host itself and for all its paths (RFC 6265bis section
// 4.1.3.2), so that neither a sibling host nor clear text can plant one. Only
// the name that fits the request is ever read.
const (
	secureCookie = "__Host-agent-runs"
	plainCookie  = "agent-runs"
)

var cookieNames = []string{secureCookie, plainCookie}

func (s *Session) cookieName(r *http.Request) string {
	if s.secure(r) {
		return secureCookie
	}
	return plainCookie
}

// cookie returns the Set-Cookie for a token. In a page of another site the
// cookie is Partitioned: browsers that keep no third-party cookies keep that
// one, for each embedding site apart.
func (s *Session) cookie(k macKey, r *http.Request, t token) *http.Cookie {
	name := s.cookieName(r)
	c := &http.Cookie{ //nolint:gosec // G124: in clear text browsers refuse Secure, and with it the cookie
		Name: name, Value: t.sign(k, name), Path: "/", MaxAge: int(s.ttl / time.Second),
		HttpOnly: true, Secure: name == secureCookie, SameSite: http.SameSiteLaxMode,
	}
	if s.embedded && c.Secure {
		c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
	}
	return c
}

// isPrivatePage reports whether an answer is an HTML page that no shared cache
// was invited to keep.
func isPrivatePage(h http.Header) bool {
	essence, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(essence), "text/html") {
		return false
	}
	return !invitesCaches(h["Cache-Control"]) && !invitesCaches(h["Cdn-Cache-Control"])
}

// invitesCaches reports whether a Cache-Control field makes an answer fit for
// shared caches by its own words. Silence does not: what caches keep by
// heuristics alone they do not keep with a Set-Cookie.
func invitesCaches(field []string) bool {
	invited := false
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(field, ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "private", "no-store":
			return false
		case "public", "s-maxage", "immutable":
			invited = true
		case "max-age":
			invited = invited || strings.Trim(value, `"0`) != ""
		}
	}
	return invited
}
