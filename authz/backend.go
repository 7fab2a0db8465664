package authz

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// DefaultIdentityLife is how long an answer to "who is this?" is remembered
// unless configured otherwise.
const DefaultIdentityLife = 30 * time.Second

// nobodyLife is how long it is remembered at most that credentials are nobody's:
// a login must not seem to fail.
const nobodyLife = 2 * time.Second

// Attribute is where an answer of the application names something: in a header
// field, or in its JSON body.
type Attribute struct {
	// Header is the name of a header field.
	Header string
	// Path leads to a string or a number in the body, if Header is empty.
	Path string
}

func (a Attribute) isSet() bool { return a != Attribute{} }

// in returns what an answer says, and an empty string for nothing.
func (a Attribute) in(answer reply) string {
	if a.Header != "" {
		if values := answer.header.Values(a.Header); len(values) == 1 {
			return values[0]
		}
		return ""
	}
	found := gjson.GetBytes(answer.body, a.Path)
	if found.Type != gjson.String && found.Type != gjson.Number {
		return ""
	}
	return found.String()
}

// BackendOptions configure a [BackendIdentity].
type BackendOptions struct {
	// URL is absolute, without placeholders.
	URL string
	// Subject is where the answer names the subject.
	Subject Attribute
	// Tenant is where it names the tenant; zero for sites without tenants.
	// Whoever has none is then nobody.
	Tenant Attribute
	// Cache is how long an answer is remembered; 0 is not at all.
	Cache time.Duration
	// Transport sends the questions; nil is [http.DefaultTransport].
	Transport http.RoundTripper
}

// BackendIdentity asks the application who somebody is, with the Cookie and
// Authorization of the request. It is for sessions that only the application
// can read.
type BackendIdentity struct {
	o     BackendOptions
	asker *asker
	known memory[Subject]
}

var _ Identity = (*BackendIdentity)(nil)

// NewBackendIdentity returns an identity. The error names every option that is
// wrong.
func NewBackendIdentity(o BackendOptions) (*BackendIdentity, error) {
	var errs []error
	if _, err := parseTemplate(o.URL); err != nil {
		errs = append(errs, fmt.Errorf("%q %w", shown(o.URL), err))
	}
	if !o.Subject.isSet() {
		errs = append(errs, errors.New("subject: got none, one is needed"))
	}
	if o.Cache < 0 {
		errs = append(errs, fmt.Errorf("cache: got %v, allowed is 0 or more", o.Cache))
	}
	return &BackendIdentity{o: o, asker: newAsker(o.Transport)}, errors.Join(errs...)
}

// Identify implements [Identity]. Without credentials nobody is asked. A status
// of 401 or 403, and an answer that names nobody, are bad credentials; anything
// but 2xx beside them is [ErrUnavailable].
func (b *BackendIdentity) Identify(r *http.Request) (Caller, error) {
	c := credentialOf(r)
	if c.isEmpty() {
		return Caller{}, ErrNoCredentials
	}
	subject, err := b.subjectOf(r, c)
	switch {
	case err != nil:
		return Caller{}, err
	case subject == Subject{}:
		return Caller{}, ErrBadCredentials
	}
	return Caller{Subject: subject, Known: true, Ambient: IsAmbient(r)}, nil
}

// subjectOf returns the subject of credentials; zero is nobody.
func (b *BackendIdentity) subjectOf(r *http.Request, c credential) (Subject, error) {
	q := c.about(b.o.URL)
	if subject, ok := b.known.get(q); ok {
		return subject, nil
	}
	answer, err := b.asker.get(r.Context(), b.o.URL, c, true)
	if err != nil {
		return Subject{}, err
	}
	var subject Subject
	switch {
	case answer.status >= 200 && answer.status <= 299:
		subject = b.read(answer)
	case answer.status != http.StatusUnauthorized && answer.status != http.StatusForbidden:
		return Subject{}, unexpected(answer.status)
	}
	life := b.o.Cache
	if subject == (Subject{}) {
		life = min(life, nobodyLife)
	}
	b.known.put(q, subject, life)
	return subject, nil
}

// read takes the subject out of an answer; zero if it names nobody.
func (b *BackendIdentity) read(answer reply) Subject {
	s := Subject{Issuer: "backend", Sub: b.o.Subject.in(answer)}
	if b.o.Tenant.isSet() {
		if s.Tenant = b.o.Tenant.in(answer); !IsName(s.Tenant) {
			return Subject{}
		}
	}
	if !IsName(s.Sub) {
		return Subject{}
	}
	return s
}

// Challenge implements [Identity].
func (*BackendIdentity) Challenge(err error) string { return Challenge(err) }
