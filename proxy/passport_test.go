package proxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// passports is an identity that believes its requests: who they are stands in
// one header, what their token says in another.
type passports struct {
	mu      sync.Mutex // guards everything below
	revoked bool
	down    bool
	expires time.Time
}

// The headers of passports.
const (
	passportHeader = "X-Passport" // <tenant>/<subject>, expired, or absent for nobody
	claimsHeader   = "X-Claims"   // a JSON object
)

// change does something under the lock.
func (p *passports) change(f func(*passports)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// Identify implements [authz.Identity].
func (p *passports) Identify(r *http.Request) (authz.Caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tenant, sub, ok := strings.Cut(r.Header.Get(passportHeader), "/")
	expired := !p.expires.IsZero() && !time.Now().Before(p.expires)
	switch {
	case p.down:
		return authz.Caller{}, authz.ErrUnavailable
	case tenant == "expired", p.revoked, expired:
		return authz.Caller{}, authz.ErrBadCredentials
	case !ok:
		return authz.Caller{}, nil
	}
	var members map[string]any
	if text := r.Header.Get(claimsHeader); text != "" {
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			return authz.Caller{}, authz.ErrBadCredentials
		}
	}
	return authz.Caller{
		Subject: authz.Subject{Tenant: tenant, Issuer: "passport", Sub: sub}, Known: true,
		Claims: authz.ClaimsOf(members), Expires: p.expires,
	}, nil
}

// Challenge implements [authz.Identity].
func (*passports) Challenge(error) string { return "Passport" }

// officer is an application that is asked who may. It answers by the
// Authorization of the question and by what its URL says.
type officer struct {
	asked  atomic.Int64
	answer func(authorization, path string) int
}

// RoundTrip implements [http.RoundTripper].
func (o *officer) RoundTrip(r *http.Request) (*http.Response, error) {
	o.asked.Add(1)
	return &http.Response{
		StatusCode: o.answer(r.Header.Get("Authorization"), r.URL.Path), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("")), Request: r,
	}, nil
}

// traveller is a client with a passport.
func traveller(c testkit.Client, passport string, headers ...string) testkit.Client {
	c = c.With(passportHeader, passport)
	if passport == "" {
		c.Header.Del(passportHeader)
	}
	for i := 0; i < len(headers); i += 2 {
		c = c.With(headers[i], headers[i+1])
	}
	return c
}
