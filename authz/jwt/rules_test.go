package jwt_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"
)

// rule is a token that is accepted for alice, or refused.
type rule struct {
	name  string
	token mint
	good  bool
}

func (r rule) check(t *testing.T) {
	t.Helper()
	check(t, r.name, r.token.sign(t), r.good)
}

// check holds a token against a site with one issuer of secrets.
func check(t *testing.T, name, token string, accepted bool) {
	t.Helper()
	i := identity(t, hmacIssuer(t))
	if accepted {
		wantAlice(t, i, name, token)
	} else {
		wantRefused(t, i, name, token)
	}
}

// TestTokensAreHeldToTheRules tries every rule for tokens that a claim or a
// header field can break, by its number.
func TestTokensAreHeldToTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Unix()
		none := gojwt.UnsafeAllowNoneSignatureType
		for _, r := range []rule{
			{"a good one", good(), true},
			{"JWT-1: none", good().by(gojwt.SigningMethodNone, none), false},
			{"JWT-1: another hash by the same secret", good().by(gojwt.SigningMethodHS512, []byte(secret)), false},
			{"JWT-1: an algorithm that does not sign", good().headed(members{"alg": "HS512"}), false},
			{"JWT-2: an algorithm nobody knows", good().headed(members{"alg": "HS1024"}), false},
			{"JWT-2: no algorithm", good().headed(members{"alg": nil}), false},
			{"JWT-2: an algorithm of another type", good().headed(members{"alg": []string{"HS256"}}), false},
			{"JWT-3: no exp", good().with(members{"exp": nil}), false},
			{"JWT-3: exp of another type", good().with(members{"exp": "4102444800"}), false},
			{"JWT-4: expired within the leeway", good().with(members{"exp": now - 29}), true},
			{"JWT-4: expired", good().with(members{"exp": now - 30}), false},
			{"JWT-4: nbf within the leeway", good().with(members{"nbf": now + 30}), true},
			{"JWT-4: nbf later", good().with(members{"nbf": now + 31}), false},
			{"JWT-4: nbf of another type", good().with(members{"nbf": "1"}), false},
			{"JWT-4: iat within the leeway", good().with(members{"iat": now + 30}), true},
			{"JWT-4: iat later", good().with(members{"iat": now + 31}), false},
			{"JWT-5: exp far beyond", good().with(members{"exp": 1e300}), false},
			{"JWT-5: exp below zero", good().with(members{"exp": -1}), false},
			{"JWT-5: iat below zero", good().with(members{"iat": -5}), false},
			{"JWT-5: exp at the end of time", good().with(members{"exp": math.MaxInt64}), false},
			{"JWT-6: no iss", good().with(members{"iss": nil}), false},
			{"JWT-6: another iss", good().with(members{"iss": otherName}), false},
			{"JWT-6: iss with a slash", good().with(members{"iss": issuerName + "/"}), false},
			{"JWT-6: iss of another type", good().with(members{"iss": []string{issuerName}}), false},
			{"JWT-7: no aud", good().with(members{"aud": nil}), false},
			{"JWT-7: another aud", good().with(members{"aud": "chat2"}), false},
			{"JWT-7: aud in a list", good().with(members{"aud": []string{"x", audience}}), true},
			{"JWT-7: aud in a mixed list", good().with(members{"aud": []any{audience, 5}}), false},
			{"JWT-8: no typ", good().headed(members{"typ": nil}), true},
			{"JWT-8: small typ", good().headed(members{"typ": "jwt"}), true},
			{"JWT-8: a logout token", good().headed(members{"typ": "logout+jwt"}), false},
			{"JWT-8: a proof", good().headed(members{"typ": "dpop+jwt"}), false},
			{"JWT-8: an event", good().headed(members{"typ": "secevent+jwt"}), false},
			{"JWT-8: typ of another type", good().headed(members{"typ": 1}), false},
			{"JWT-8: an ID token", good().with(members{"nonce": "n"}), false},
			{"JWT-8: nonce with a scope", good().with(members{"nonce": "n", "scope": "a"}), true},
			{"JWT-8: only its holder may use it", good().with(members{"cnf": members{"jkt": "x"}}), false},
			{"JWT-9: critical extension", good().headed(members{"crit": []string{"exp2"}, "exp2": 1}), false},
			{"JWT-9: empty crit", good().headed(members{"crit": []string{}}), false},
			{"JWT-9: b64", good().headed(members{"b64": false}), false},
			{"JWT-10: its own key", good().headed(members{"jwk": members{"kty": "oct", "k": "AAAA"}}), true},
			{"JWT-11: kid is only a name", good().headed(members{"kid": "../../etc/passwd\x00' OR 1=1"}), true},
			{"JWT-11: an endless kid", good().headed(members{"kid": strings.Repeat("k", 257)}), false},
			{"JWT-11: kid of another type", good().headed(members{"kid": 1}), false},
			{"JWT-12: no sub", good().with(members{"sub": nil}), false},
			{"JWT-12: empty sub", good().with(members{"sub": ""}), false},
			{"JWT-12: sub of another type", good().with(members{"sub": 12}), false},
			{"JWT-12: sub of a list", good().with(members{"sub": []string{"alice"}}), false},
			{"JWT-12: endless sub", good().with(members{"sub": strings.Repeat("a", 256)}), false},
			{"JWT-12: sub with a line end", good().with(members{"sub": "alice\n"}), false},
			{"JWT-12: sub that was broken", good().with(members{"sub": "alice\ufffd"}), false},
			{"JWT-15: nested", good().headed(members{"cty": "JWT"}), false},
			{"JWT-15: encrypted", good().headed(members{"enc": "A128GCM"}), false},
			{"JWT-15: compressed", good().headed(members{"zip": "DEF"}), false},
			{"JWT-18: access token", good().headed(members{"typ": "at+jwt"}).with(members{"client_id": "c", "jti": "j"}), true},
			{"JWT-18: its long type", good().headed(members{"typ": "application/AT+JWT"}).with(members{"client_id": "c", "jti": "j"}), true},
			{"JWT-18: without jti", good().headed(members{"typ": "at+jwt"}).with(members{"client_id": "c"}), false},
			{"JWT-18: without client_id", good().headed(members{"typ": "at+jwt"}).with(members{"jti": "j"}), false},
			{"JWT-18: without iat", good().headed(members{"typ": "at+jwt"}).with(members{"client_id": "c", "jti": "j", "iat": nil}), false},
		} {
			r.check(t)
		}
	})
}

// JWT-15: what is not one compact token in strict coding is none at all.
func TestOnlyCompactTokensAreRead(t *testing.T) {
	token := good().sign(t)
	parts := strings.Split(token, ".")
	raw := func(header, claims string) string {
		m := good()
		m.rawHeader, m.rawClaims = header, claims
		return m.sign(t)
	}
	const head, body = `{"alg":"HS256"}`, `{"iss":"` + issuerName + `","aud":"chat","sub":"alice","exp":4102444800}`
	check(t, "as it should be", raw(head, body), true)
	for name, text := range map[string]string{
		"two parts":               parts[0] + "." + parts[1],
		"no signature":            parts[0] + "." + parts[1] + ".",
		"four parts":              token + ".x",
		"five parts":              token + ".x.y",
		"no header":               "." + parts[1] + "." + parts[2],
		"padding":                 parts[0] + "." + parts[1] + "." + parts[2] + "=",
		"another alphabet":        strings.NewReplacer("-", "+", "_", "/").Replace(token) + "+",
		"a line end":              parts[0] + ".\n" + parts[1] + "." + parts[2],
		"spaces":                  parts[0] + " ." + parts[1] + "." + parts[2],
		"loose last bits":         looseBits(token),
		"JSON form":               `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"too long":                good().with(members{"x": strings.Repeat("x", 8<<10)}).sign(t),
		"alg twice":               raw(`{"alg":"none","alg":"HS256"}`, body),
		"alg in capitals as well": raw(`{"ALG":"HS256"}`, body),
		"sub twice":               raw(head, `{"sub":"bob",`+body[1:]),
		"exp twice":               raw(head, strings.Replace(body, "}", `,"exp":4102444801}`, 1)),
		"a member twice deeper":   raw(head, strings.Replace(body, "}", `,"a":{"b":1,"b":2}}`, 1)),
		"claims null":             raw(head, "null"),
		"claims an array":         raw(head, "["+body+"]"),
		"claims a string":         raw(head, `"x"`),
		"more after the claims":   raw(head, body+body),
		"header null":             raw("null", body),
		"not UTF-8":               raw(head, strings.Replace(body, "alice", "ali\xffce", 1)),
		"half a character":        raw(head, strings.Replace(body, "alice", `alice\ud800`, 1)),
		"infinite exp":            raw(head, strings.Replace(body, "4102444800", "1e999", 1)),
		"exp that is no number":   raw(head, strings.Replace(body, "4102444800", "NaN", 1)),
		"exp null":                raw(head, strings.Replace(body, "4102444800", "null", 1)),
	} {
		check(t, name, text, false)
	}
}

// looseBits changes bits behind the last byte of a signature, which lenient
// decoders ignore: one token would have many forms.
func looseBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1])
}

// JWT-10, 11, 13 and 16: public keys, each for its own algorithm and by its own
// id.
func TestPublicKeysVerifyTheirOwn(t *testing.T) {
	i := identity(t, publicIssuer(t))
	k := keyring()
	rs, es, ed := good().by(gojwt.SigningMethodRS256, k.rsa), good().by(gojwt.SigningMethodES256, k.es), good().by(gojwt.SigningMethodEdDSA, k.ed)
	for name, m := range map[string]mint{
		"RS256": rs.headed(members{"kid": "r"}), "PS256": good().by(gojwt.SigningMethodPS256, k.rsa).headed(members{"kid": "r"}),
		"ES256": es.headed(members{"kid": "e"}), "EdDSA": ed.headed(members{"kid": "d"}), "ES256 without kid": es, "EdDSA without kid": ed,
		"RS256 without kid": rs, // the only RSA key
	} {
		wantAlice(t, i, name, m.sign(t))
	}
	publicAsSecret := good().by(gojwt.SigningMethodHS256, []byte(publicPEM(t, k.rsa.Public())))
	for name, m := range map[string]mint{
		"JWT-1: a public key as a secret":    publicAsSecret,
		"JWT-1: the same with its kid":       publicAsSecret.headed(members{"kid": "r"}),
		"JWT-1: RS512, which is not listed":  good().by(gojwt.SigningMethodRS512, k.rsa).headed(members{"kid": "r"}),
		"JWT-10: a key of the token's own":   good().by(gojwt.SigningMethodRS256, k.another).headed(members{"kid": "r", "jku": "https://evil.example", "x5u": "https://evil.example", "x5c": []string{"AAAA"}}),
		"JWT-11: unknown kid":                rs.headed(members{"kid": "x"}),
		"JWT-11: kid of another key":         rs.headed(members{"kid": "e"}),
		"JWT-13: alg of another kind of key": rs.headed(members{"kid": "e", "alg": "ES256"}),
	} {
		wantRefused(t, i, name, m.sign(t))
	}
	// JWT-16: r and s have the curve's length, each.
	token := es.sign(t)
	at := strings.LastIndexByte(token, '.') + 1
	sig, err := base64.RawURLEncoding.DecodeString(token[at:])
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range [][]byte{sig[:63], append([]byte{0}, sig...), make([]byte, 64), sig[:32], {}} {
		wantRefused(t, i, "JWT-16", token[:at]+base64.RawURLEncoding.EncodeToString(broken))
	}
}

// JWT-6 and AUT-8: keys of one issuer do not verify tokens of another, and one
// sub of two issuers is two subjects.
func TestIssuersAreKeptApart(t *testing.T) {
	other := publicIssuer(t)
	other.Name = otherName
	i := identity(t, hmacIssuer(t), other)
	rs := good().by(gojwt.SigningMethodRS256, keyring().rsa)
	wantRefused(t, i, "key of another issuer", rs.sign(t))
	wantRefused(t, i, "secret of another issuer", good().with(members{"iss": otherName}).sign(t))
	ours, theirs := wantAlice(t, i, "ours", good().sign(t)), wantAlice(t, i, "theirs", rs.with(members{"iss": otherName}).sign(t))
	if ours.Subject == theirs.Subject || ours.Subject.Issuer != issuerName || theirs.Subject.Issuer != otherName {
		t.Errorf("got %+v and %+v, want two subjects", ours.Subject, theirs.Subject)
	}
}
