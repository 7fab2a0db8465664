package authz

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// askTimeout is how long the application may take to answer a question.
	askTimeout = 5 * time.Second
	// maxAnswer is how much of its answer is read, in bytes.
	maxAnswer = 1 << 20
)

// asker puts questions to the application, with the credentials of whoever
// asked us. Equal questions that are under way at the same time are one.
type asker struct {
	client  *http.Client
	flights singleflight.Group
}

// newAsker returns an asker. A redirect is an answer like any other: to follow
// it would carry credentials to where the configuration does not say.
func newAsker(transport http.RoundTripper) *asker {
	return &asker{client: &http.Client{
		Transport: transport, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is the application's answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// errTooLong means that an answer was longer than it may be.
var errTooLong = errors.New("answer is too long")

// credential is what a question is asked with: the request's own Cookie and
// Authorization, without the cookie that is ours.
type credential struct {
	header http.Header
	hash   [sha256.Size]byte
}

func credentialOf(r *http.Request) credential {
	c := credential{header: make(http.Header, 2)}
	var parts []string
	for _, name := range []string{"Authorization", "Cookie"} {
		if values := r.Header[name]; len(values) > 0 {
			c.header[name] = values
		}
		if name == "Cookie" {
			removeCookies(c.header, cookieNames...)
		}
		parts = appendList(parts, c.header[name])
	}
	copy(c.hash[:], macKey(nil).mac("credential", parts...))
	return c
}

func (c credential) isEmpty() bool { return len(c.header) == 0 }

// question names a URL together with who asks it.
type question [sha256.Size]byte

func (c credential) about(url string) question {
	var q question
	copy(q[:], macKey(nil).mac("question", url, string(c.hash[:])))
	return q
}

// get asks. An error wraps [ErrUnavailable]. It is asked for all who wait, so
// one of them who leaves does not end it.
func (a *asker) get(ctx context.Context, url string, c credential, withBody bool) (reply, error) {
	q := c.about(url)
	done := a.flights.DoChan(string(q[:]), func() (any, error) {
		return a.fetch(context.WithoutCancel(ctx), url, c, withBody)
	})
	select {
	case result := <-done:
		answer, _ := result.Val.(reply)
		return answer, result.Err
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

func (a *asker) fetch(ctx context.Context, url string, c credential, withBody bool) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return reply{}, fmt.Errorf("%w: asking the application: %w", ErrUnavailable, err)
	}
	r.Header = c.header.Clone()
	r.Header.Set("Accept", "application/json")
	resp, err := a.client.Do(r)
	if err != nil {
		return reply{}, fmt.Errorf("%w: asking the application: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	answer := reply{status: resp.StatusCode, header: resp.Header}
	limit := int64(maxAnswer)
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case !withBody:
		return answer, nil // what was read lets the connection be used again
	case err == nil && int64(len(body)) > limit:
		err = errTooLong
	case err == nil:
		answer.body = body
		return answer, nil
	}
	return reply{}, fmt.Errorf("%w: reading the application's answer: %w", ErrUnavailable, err)
}

// unexpected is the error for an answer that is neither yes nor no.
func unexpected(status int) error {
	return fmt.Errorf("%w: the application answered with status %d", ErrUnavailable, status)
}

// maxRemembered bounds the answers that are kept: strangers choose what they
// ask.
const maxRemembered = 10_000

// memory keeps answers for a while.
type memory[V any] struct {
	mu      sync.Mutex // guards answers
	answers map[question]remembered[V]
}

type remembered[V any] struct {
	value V
	until time.Time
}

func (m *memory[V]) get(q question) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, ok := m.answers[q]
	if !ok || !time.Now().Before(kept.until) {
		delete(m.answers, q)
		return value, false
	}
	return kept.value, true
}

// put keeps an answer. When there is no room, any other one goes: it will be
// asked for again.
func (m *memory[V]) put(q question, value V, life time.Duration) {
	if life <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = make(map[question]remembered[V])
	}
	for other := range m.answers {
		if len(m.answers) < maxRemembered {
			break
		}
		delete(m.answers, other)
	}
	m.answers[q] = remembered[V]{value: value, until: time.Now().Add(life)}
}
