package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DefaultAnswerLife is how long a yes of the application to a [BackendPolicy]
// is remembered unless configured otherwise.
const DefaultAnswerLife = 5 * time.Second

// BackendRules are the URLs of a [BackendPolicy]: absolute, with
// {conversation_id} and {run_id} in their path or query.
type BackendRules struct {
	Read  string
	Write string
	// Start may be empty: then everybody who is somebody may start. It has no
	// {run_id}.
	Start string
	// Cache is how long a yes is remembered; 0 is not at all. A no is asked for
	// again each time, like everything about what does not exist.
	Cache time.Duration
	// Transport sends the questions; nil is [http.DefaultTransport].
	Transport http.RoundTripper
}

// BackendPolicy asks the application, with the caller's own credentials: a
// status of 2xx is yes, 401, 403 and 404 are no, and anything else is an error.
type BackendPolicy struct {
	rules map[Verb]template
	cache time.Duration
	asker *asker
	yes   memory[struct{}]
}

var _ Policy = (*BackendPolicy)(nil)

// NewBackendPolicy returns a policy. The error names every rule that is wrong.
func NewBackendPolicy(o BackendRules) (*BackendPolicy, error) {
	p := &BackendPolicy{rules: make(map[Verb]template, 3), cache: o.Cache, asker: newAsker(o.Transport)}
	var errs []error
	for _, rule := range []struct {
		verb Verb
		name string
		text string
	}{{Read, "read", o.Read}, {Write, "write", o.Write}, {Start, "start", o.Start}} {
		switch {
		case rule.text != "":
			t, err := parseTemplate(rule.text, holesOf(rule.verb)...)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %q %w", rule.name, shown(rule.text), err))
			}
			p.rules[rule.verb] = t
		case rule.verb != Start:
			errs = append(errs, fmt.Errorf("%s: got no URL, one is needed", rule.name))
		}
	}
	if o.Cache < 0 {
		errs = append(errs, fmt.Errorf("cache: got %v, allowed is 0 or more", o.Cache))
	}
	return p, errors.Join(errs...)
}

// May implements [Policy]. The owner is asked about like everybody else: what
// the application took back is gone for all.
func (p *BackendPolicy) May(ctx context.Context, a Ask) (bool, error) {
	rule := p.rules[a.Verb]
	if !rule.isSet() {
		return true, nil
	}
	url, c := rule.fill(a.Conversation, a.Run), credentialOf(a.Request)
	q := c.about(url)
	if a.Verb == Write {
		q = c.about("write " + url) // the same URL may stand in two rules
	}
	if _, ok := p.yes.get(q); ok {
		return true, nil
	}
	answer, err := p.asker.get(ctx, url, c, false)
	switch {
	case err != nil:
		return false, err
	case answer.status >= 200 && answer.status <= 299:
		p.yes.put(q, struct{}{}, p.cache)
		return true, nil
	case answer.status == http.StatusUnauthorized, answer.status == http.StatusForbidden, answer.status == http.StatusNotFound:
		return false, nil
	}
	return false, unexpected(answer.status)
}

// Shared implements [Policy].
func (*BackendPolicy) Shared() bool { return true }

// String implements [Policy].
func (*BackendPolicy) String() string { return "backend" }
