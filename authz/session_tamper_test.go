package authz_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

const cookieName = "__Host-agent-runs"

// holding returns a request with a raw value in the session cookie.
func holding(value string) *http.Request { return request("Cookie: " + cookieName + "=" + value) }

func TestEveryChangedByteMakesTheCookieAbsent(t *testing.T) {
	s := session(t, options())
	_, cookie := newcomer(t, s, request(), "")
	for i := range cookie.Value {
		for _, c := range []byte("A-_z9=") {
			if cookie.Value[i] == c {
				continue
			}
			value := cookie.Value[:i] + string(c) + cookie.Value[i+1:]
			if got := identify(t, s, holding(value)); got.Known {
				t.Fatalf("got subject %+v with byte %d changed to %q, want nobody", got.Subject, i, c)
			}
		}
	}
}

// Promise 1.
func TestEveryChangedBitMakesTheCookieAbsent(t *testing.T) {
	s := session(t, options())
	_, cookie := newcomer(t, s, request(), "")
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if got := identify(t, s, holding(base64.RawURLEncoding.EncodeToString(raw))); got.Known {
			t.Fatalf("got subject %+v with bit %d changed, want nobody", got.Subject, bit)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

func TestValueOfAnotherShapeIsAbsent(t *testing.T) {
	s := session(t, options())
	_, cookie := newcomer(t, s, request(), "")
	v := cookie.Value
	for name, value := range map[string]string{
		"empty":            "",
		"shorter":          v[:len(v)-1],
		"longer":           v + "A",
		"padded":           v + "==",
		"quoted":           `"` + v + `"`,
		"twice":            v + v,
		"other alphabet":   strings.Repeat("+/", len(v)/2),
		"right length":     strings.Repeat("A", len(v)),
		"line break":       v[:10] + "\n" + v[11:],
		"line breaks only": strings.Repeat("\n", len(v)),
		"added line break": v[:10] + "\r\n" + v[10:],
		"not ASCII":        strings.Repeat("é", len(v)/2),
	} {
		t.Run(name, func(t *testing.T) {
			if got := identify(t, s, holding(value)); got.Known {
				t.Errorf("got subject %+v, want nobody", got.Subject)
			}
		})
	}
}

func TestCookieOfAnotherKeyIsAbsent(t *testing.T) {
	o := options()
	o.Secret = func() ([]byte, error) { return []byte("another-secret-of-the-tests-0123456789"), nil }
	_, cookie := newcomer(t, session(t, o), request(), "")
	if got := identify(t, session(t, options()), request(carry(cookie))); got.Known {
		t.Errorf("got subject %+v, want nobody", got.Subject)
	}
}

func TestBadCookieBesideAGoodOneChangesNothing(t *testing.T) {
	s := session(t, options())
	own, cookie := newcomer(t, s, request(), "")
	sameParty(t, identify(t, s, request("Cookie: "+cookieName+"=forged; a=1; "+cookieName+"="+cookie.Value)), own)
}

// A sibling host may set a cookie for the whole domain in clear text. Reading
// under it would show its owner what this browser starts.
func TestTwoGoodSessionsAreNone(t *testing.T) {
	s := session(t, options())
	own, cookie := newcomer(t, s, plainRequest(), "")
	_, planted := newcomer(t, s, plainRequest(), "")
	if got := identify(t, s, plainRequest(carry(planted)+"; "+cookie.Name+"="+cookie.Value)); got.Known {
		t.Errorf("got subject %+v, want nobody", got.Subject)
	}
	sameParty(t, identify(t, s, plainRequest(carry(cookie)+"; "+cookie.Name+"="+cookie.Value)), own)
}

func TestInvalidCookieIsReplacedOnPageLoad(t *testing.T) {
	s := session(t, options())
	if got := s.PageLoad(navigation("Cookie: "+cookieName+"=forged"), http.StatusOK, page()); got == nil {
		t.Error("got no cookie in place of a forged one, want one")
	}
}

// FuzzOnlyIssuedValuesAreSessions asserts that a request is somebody's exactly
// if one of its cookies of our name is an issued value, byte for byte, and that
// no value is an error.
func FuzzOnlyIssuedValuesAreSessions(f *testing.F) {
	s, err := authz.NewSession(options())
	if err != nil {
		f.Fatal(err)
	}
	owner, cookie, err := s.Newcomer(request(), "", nil)
	if err != nil {
		f.Fatal(err)
	}
	issued := func(value string) bool {
		return slices.ContainsFunc(strings.Split(cookieName+"="+value, ";"), func(pair string) bool {
			name, v, _ := strings.Cut(pair, "=")
			return strings.Trim(name, " \t") == cookieName && strings.Trim(v, " \t") == cookie.Value
		})
	}
	for _, insert := range []string{"", "A", "=", "\r\n", "; x", "; " + cookieName + "=x", "; " + cookieName + "="} {
		f.Add(insert, uint8(0))
		f.Add(insert, uint8(40))
		f.Add(insert, uint8(len(cookie.Value)))
	}
	f.Fuzz(func(t *testing.T, insert string, at uint8) {
		i := min(int(at), len(cookie.Value))
		for _, value := range []string{insert, cookie.Value[:i] + insert + cookie.Value[i:], cookie.Value[:i] + insert} {
			got := identify(t, s, holding(value))
			if want := issued(value); got.Known != want || want && got.Subject != owner.Subject {
				t.Errorf("got %+v for %q, want somebody: %t", got, value, want)
			}
		}
	})
}
