package jwt

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	strict "github.com/go-jose/go-jose/v4/json"
	gojwt "github.com/golang-jwt/jwt/v5"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// claims are the payload of a token, in the strict reading: what has the wrong
// type is refused, never taken for absent.
type claims struct {
	members map[string]any
}

var _ gojwt.Claims = (*claims)(nil)

// UnmarshalJSON implements [json.Unmarshaler], for golang-jwt.
func (c *claims) UnmarshalJSON(data []byte) error { return strict.Unmarshal(data, &c.members) }

// maxDate is the end of year 9999, in seconds since 1970.
const maxDate = 253402300799

// date reads a NumericDate (RFC 7519 section 2), to the fraction of a second.
func (c *claims) date(name string) (*gojwt.NumericDate, error) {
	value, there := c.members[name]
	if !there {
		return nil, nil //nolint:nilnil // golang-jwt's way to say that there is none
	}
	seconds, ok := value.(float64)
	if !ok || !(seconds >= 0 && seconds <= maxDate) {
		return nil, errClaims
	}
	whole, fraction := math.Modf(seconds)
	return &gojwt.NumericDate{Time: time.Unix(int64(whole), int64(fraction*1e9))}, nil
}

// text reads a claim that is a string, empty if it is not there.
func (c *claims) text(name string) (string, error) {
	value, there := c.members[name]
	text, ok := value.(string)
	if there && !ok {
		return "", errClaims
	}
	return text, nil
}

// GetExpirationTime implements [gojwt.Claims].
func (c *claims) GetExpirationTime() (*gojwt.NumericDate, error) { return c.date("exp") }

// GetNotBefore implements [gojwt.Claims].
func (c *claims) GetNotBefore() (*gojwt.NumericDate, error) { return c.date("nbf") }

// GetIssuedAt implements [gojwt.Claims].
func (c *claims) GetIssuedAt() (*gojwt.NumericDate, error) { return c.date("iat") }

// GetIssuer implements [gojwt.Claims].
func (c *claims) GetIssuer() (string, error) { return c.text("iss") }

// GetSubject implements [gojwt.Claims].
func (c *claims) GetSubject() (string, error) { return c.text("sub") }

// GetAudience implements [gojwt.Claims]: a string or an array of nothing but
// strings (RFC 7519 section 4.1.3).
func (c *claims) GetAudience() (gojwt.ClaimStrings, error) {
	switch value := c.members["aud"].(type) {
	case string:
		return gojwt.ClaimStrings{value}, nil
	case []any:
		list := make(gojwt.ClaimStrings, len(value))
		for i, member := range value {
			text, ok := member.(string)
			if !ok {
				return nil, errAudience
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, errAudience
}

// name reads a claim that names a subject or a tenant. The claim may be a path
// into objects, like those of [authz.Claims].
func (c *claims) name(claim string) (string, bool) {
	value := c.find(claim)
	text, ok := value.(string)
	// U+FFFD stands for text that was broken: two names must not become one.
	return text, ok && authz.IsName(text) && !strings.ContainsRune(text, utf8.RuneError)
}

// find returns the value of a claim, or nil.
func (c *claims) find(claim string) any {
	return authz.ClaimsOf(c.members).Find(claim)
}

// suits refuses what is no token for access to an API (RFC 8725 section 3.12),
// and a token that only its first holder may use (RFC 7800, RFC 9449), which
// nobody has proved here.
func (c *claims) suits(typ, scopeClaim string) error {
	if _, bound := c.members["cnf"]; bound {
		return errKind
	}
	if typ == accessToken {
		for _, name := range []string{"client_id", "jti"} { // RFC 9068 section 2.2
			if text, err := c.text(name); err != nil || text == "" {
				return errKind
			}
		}
		if _, there := c.members["iat"]; !there {
			return errKind
		}
	}
	if _, there := c.members["nonce"]; there && !c.hasAny("scope", "scp", scopeClaim) {
		return errKind // an ID token (OpenID Connect Core section 2)
	}
	return nil
}

func (c *claims) hasAny(names ...string) bool {
	for _, name := range names {
		if name != "" && c.find(name) != nil {
			return true
		}
	}
	return false
}
