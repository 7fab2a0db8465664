package authz

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DefaultTTL is how long a session lasts if [Options].TTL is zero.
const DefaultTTL = 30 * 24 * time.Hour

// minTTL keeps a session from ending between a start and its first retry.
const minTTL = time.Minute

// Options configure a [Session].
type Options struct {
	// Secret loads the signing key, at least [MinSecret] bytes, the same on every
	// instance. It is called when the key is first needed, again only after it
	// failed, and never twice at a time.
	Secret func() ([]byte, error)
	// Bind mixes credentials of the application into the subject, so that a
	// logout, or a login as somebody else, changes it. Each should stay the same
	// for the length of a login.
	Bind []Source
	// SameSiteNone makes the cookie SameSite=None and Partitioned, for widgets
	// that live in pages of other sites. Without TLS it has no effect, since
	// browsers refuse such cookies there.
	SameSiteNone bool
	// TTL is how long a session lasts. Page loads renew it at half time. It
	// should be longer than records are kept. Zero means [DefaultTTL].
	TTL time.Duration
	// Secure tells whether the client speaks TLS. Nil means that this server
	// itself does (Request.TLS); behind a proxy that ends TLS the server must
	// say, from a forwarding header only if the peer is trusted to set it.
	Secure func(*http.Request) bool
}

// Session makes each browser a subject by a signed cookie, and each script by
// the credential that it sends to the application. It tells browsers apart,
// not people.
type Session struct {
	keys     keyring
	bind     []Source
	embedded bool
	ttl      time.Duration
	secure   func(*http.Request) bool
}

var (
	_ Identity = (*Session)(nil)
	_ Starter  = (*Session)(nil)
)

// NewSession returns a session identity. The error names every option that is
// wrong.
func NewSession(o Options) (*Session, error) {
	s := &Session{
		keys: keyring{load: o.Secret}, bind: o.Bind, embedded: o.SameSiteNone,
		ttl: o.TTL, secure: o.Secure,
	}
	if s.ttl == 0 {
		s.ttl = DefaultTTL
	}
	if s.secure == nil {
		s.secure = func(r *http.Request) bool { return r.TLS != nil }
	}
	var errs []error
	if o.Secret == nil {
		errs = append(errs, errors.New("session has no source for its signing key"))
	}
	if s.ttl < minTTL {
		errs = append(errs, fmt.Errorf("session: got ttl %v, allowed is %v or more", s.ttl, minTTL))
	}
	for _, b := range o.Bind {
		errs = append(errs, b.validate())
	}
	return s, errors.Join(errs...)
}

// Identify implements [Identity]. The cookie wins over a script's credential.
// A request with neither is nobody's, which is no error; that one asks for no
// key, and the only error is that there is none.
func (s *Session) Identify(r *http.Request) (Caller, error) {
	script, scripted := scriptCredentials(r)
	if !scripted && len(cookieValues(r.Header, s.cookieName(r))) == 0 {
		return Caller{Ambient: IsAmbient(r)}, nil
	}
	k, err := s.keys.get(r.Context())
	if err != nil {
		return Caller{}, err
	}
	if t, ok := s.token(k, r); ok {
		return s.holder(k, r, t), nil
	}
	if scripted {
		sub := k.name("credential", s.bound(r, script)...)
		return Caller{Subject: sessionSubject(sub), Known: true, Ambient: isAutomatic(r)}, nil
	}
	return Caller{Ambient: IsAmbient(r)}, nil
}

// Challenge implements [Identity]: a session never asks for credentials.
func (*Session) Challenge(error) string { return "" }

// Newcomer implements [Starter]. With an idempotency key the same request gets
// the same subject again, since its first answer, and the cookie with it, may
// have been lost. Credentials and bound values are in it beside key and
// fingerprint: two people whose application counts its keys from one stay two.
func (s *Session) Newcomer(r *http.Request, key string, fingerprint []byte) (Caller, *http.Cookie, error) {
	k, err := s.keys.get(r.Context())
	if err != nil {
		return Caller{}, nil, err
	}
	t := newToken()
	if key != "" {
		parts, _ := credentials(r)
		parts = append(parts, key, string(fingerprint))
		copy(t.id[:], k.mac("newcomer", s.bound(r, parts)...))
	}
	caller := s.holder(k, r, t)
	caller.Ambient = IsAmbient(r)
	return caller, s.cookie(k, r, t), nil
}

// PageLoad implements [Starter]. A page that shared caches may keep gets no
// cookie, for they would hand one browser's session to the next (RFC 9111
// section 7.3); the first run sets it then. A session past half its time is
// renewed.
func (s *Session) PageLoad(r *http.Request, status int, header http.Header) *http.Cookie {
	if r.Header.Get("Sec-Fetch-Mode") != "navigate" || status < 200 || status > 299 || !isPrivatePage(header) {
		return nil
	}
	k, err := s.keys.get(r.Context())
	if err != nil {
		return nil
	}
	t := newToken()
	if held, ok := s.token(k, r); ok {
		if time.Since(held.issued) < s.ttl/2 {
			return nil
		}
		t.id = held.id
	}
	return s.cookie(k, r, t)
}

// Strip implements [Starter].
func (*Session) Strip(h http.Header) { removeCookies(h, cookieNames...) }

// token returns the session that the request holds. Two that are both good
// are none: the second was planted by somebody who may set cookies for this
// host and wants to read what is started under it.
func (s *Session) token(k macKey, r *http.Request) (token, bool) {
	var held token
	found := false
	name := s.cookieName(r)
	for _, value := range cookieValues(r.Header, name) {
		t, ok := readToken(k, name, value)
		if !ok || time.Since(t.issued) >= s.ttl {
			continue
		}
		if found && t.id != held.id {
			return token{}, false
		}
		if !found || t.issued.After(held.issued) {
			held = t
		}
		found = true
	}
	return held, found
}

// holder returns the caller who holds a token.
func (s *Session) holder(k macKey, r *http.Request, t token) Caller {
	sub := k.name("session", s.bound(r, []string{string(t.id[:])})...)
	return Caller{Subject: sessionSubject(sub), Known: true, Ambient: true, Expires: t.issued.Add(s.ttl)}
}

// bound appends the values that subjects are bound to. Absent and empty are
// two things.
func (s *Session) bound(r *http.Request, parts []string) []string {
	for _, b := range s.bind {
		parts = appendList(parts, b.values(r))
	}
	return parts
}

// scriptCredentials returns the credentials of a request that no browser sent.
func scriptCredentials(r *http.Request) ([]string, bool) {
	if fromBrowser(r) {
		return nil, false
	}
	return credentials(r)
}

func sessionSubject(sub string) Subject { return Subject{Issuer: "session", Sub: sub} }
