package authz

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Place is a part of a request that carries credentials.
type Place string

// The places of a [Source].
const (
	InCookie Place = "cookie"
	InHeader Place = "header"
)

// Source names a credential of the application: a cookie, or a header field.
type Source struct {
	In   Place
	Name string
}

func (s Source) validate() error {
	switch {
	case s.In != InCookie && s.In != InHeader:
		return fmt.Errorf("bind: got place %q, allowed are %q and %q", s.In, InCookie, InHeader)
	case !isToken(s.Name):
		return fmt.Errorf("bind %s: got name %q, allowed is a name of letters, digits and !#$%%&'*+-.^_`|~", s.In, s.Name)
	case s.In == InCookie && slices.Contains(cookieNames, s.Name):
		return fmt.Errorf("bind cookie: got %q, which is the session cookie itself, allowed are cookies of the application", s.Name)
	case s.In == InHeader && strings.EqualFold(s.Name, "Cookie"):
		// It holds the session cookie, so it would change with it.
		return fmt.Errorf("bind header: got %q, allowed are header fields with one credential; name the cookie instead: bind cookie <name>", s.Name)
	}
	return nil
}

// values returns what the request carries, in its order.
func (s Source) values(r *http.Request) []string {
	if s.In == InCookie {
		return cookieValues(r.Header, s.Name)
	}
	return r.Header.Values(s.Name)
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2, which names
// of header fields and cookies are.
func isToken(s string) bool {
	alphanumeric := func(c rune) bool {
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !alphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// credentialHeaders are the header fields in which scripts and SDKs carry
// their key, in canonical form.
var credentialHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// credentials returns all credentials of a request as a list for a MAC, and
// whether there is any. All count, not the first: a site behind one shared
// basic authentication still tells the keys of its scripts apart.
func credentials(r *http.Request) (parts []string, found bool) {
	for _, name := range credentialHeaders {
		values := slices.DeleteFunc(slices.Clone(r.Header[name]), isBlank)
		parts = appendList(parts, values)
		found = found || len(values) > 0
	}
	return parts, found
}

// isBlank reports whether a credential is empty, or a scheme with nothing
// after it: what a script sends whose key is not set. Everybody has that one.
func isBlank(value string) bool {
	value = strings.TrimSpace(value)
	return value == "" || strings.EqualFold(value, "Bearer") || strings.EqualFold(value, "Basic")
}

// appendList appends a list of any length so that its end can be told from
// what follows.
func appendList(parts, list []string) []string {
	return append(append(parts, strconv.Itoa(len(list))), list...)
}

// fromBrowser reports whether a browser sent the request for a page. A browser
// sends one of the two fields with every start that is not a plain GET over
// clear text, and no SDK sends either.
func fromBrowser(r *http.Request) bool {
	return len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Origin"]) > 0
}

// automatic are the authentication schemes whose credentials a browser keeps
// and adds by itself.
var automatic = []string{"basic", "digest", "negotiate", "ntlm"}

// isAutomatic reports whether Authorization may have been added by a browser.
func isAutomatic(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Authorization"], func(value string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		return slices.Contains(automatic, strings.ToLower(scheme))
	})
}

// IsAmbient reports whether the request carries a credential that a browser
// may have added by itself.
func IsAmbient(r *http.Request) bool {
	return len(r.Header["Cookie"]) > 0 || isAutomatic(r) || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// mayBeAmbient is IsAmbient for callers that something before us established,
// perhaps by a credential that is gone: only one in sight that a page must add
// itself speaks against it.
func mayBeAmbient(r *http.Request) bool {
	_, explicit := credentials(r)
	return !explicit || IsAmbient(r)
}
