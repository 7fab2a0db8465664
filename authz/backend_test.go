package authz_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// application is one that is asked. Its answer depends on the question.
type application struct {
	asked  atomic.Int64
	answer func(r *http.Request) *http.Response
}

// RoundTrip implements [http.RoundTripper].
func (a *application) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked.Add(1)
	resp := a.answer(r)
	if resp == nil {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	resp.Request = r
	return resp, nil
}

func response(status int, body string, fields ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func saying(status int, body string, fields ...string) *application {
	return &application{answer: func(*http.Request) *http.Response { return response(status, body, fields...) }}
}

func backend(t *testing.T, app *application, change func(*authz.BackendOptions)) *authz.BackendIdentity {
	t.Helper()
	o := authz.BackendOptions{URL: "https://app.test/me", Subject: authz.Attribute{Path: "user.id"}, Cache: 30 * time.Second, Transport: app}
	if change != nil {
		change(&o)
	}
	b, err := authz.NewBackendIdentity(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheApplicationNamesTheSubject(t *testing.T) {
	app := saying(http.StatusOK, `{"user":{"id":"alice","org":7}}`, "X-User: bob", "X-Org: acme")
	byBody := backend(t, app, func(o *authz.BackendOptions) { o.Tenant = authz.Attribute{Path: "user.org"} })
	byHeader := backend(t, app, func(o *authz.BackendOptions) {
		o.Subject, o.Tenant = authz.Attribute{Header: "X-User"}, authz.Attribute{Header: "X-Org"}
	})
	cookie, script := identify(t, byBody, request("Cookie: sid=1")), identify(t, byHeader, request("Authorization: Bearer k"))
	if want := (authz.Subject{Tenant: "7", Issuer: "backend", Sub: "alice"}); cookie.Subject != want || !cookie.Ambient {
		t.Errorf("by cookie: got %+v, want %+v and ambient", cookie, want)
	}
	if want := (authz.Subject{Tenant: "acme", Issuer: "backend", Sub: "bob"}); script.Subject != want || script.Ambient {
		t.Errorf("by Authorization: got %+v, want %+v and not ambient", script, want)
	}
}

// TestTheApplicationIsAskedWithTheCallersOwnCredentials, and with nothing else
// of the request, our cookie least of all.
func TestTheApplicationIsAskedWithTheCallersOwnCredentials(t *testing.T) {
	var got http.Header
	app := &application{answer: func(r *http.Request) *http.Response {
		got = r.Header
		return response(http.StatusOK, `{"user":{"id":"alice"}}`)
	}}
	identify(t, backend(t, app, nil), request("Cookie: sid=1; __Host-agent-runs=x; b=2", "Authorization: Bearer k", "X-Secret: s", "Last-Event-ID: 7"))
	if got.Get("Cookie") != "sid=1; b=2" || got.Get("Authorization") != "Bearer k" || len(got) != 3 {
		t.Errorf("the application got %v, want Cookie, Authorization and Accept", got)
	}
}

func TestWhoIsNobodyAndWhatCannotBeTold(t *testing.T) {
	for name, row := range map[string]struct {
		app    *application
		fields []string
		want   error
		asked  int64
	}{
		"no credentials":     {saying(200, `{"user":{"id":"a"}}`), nil, authz.ErrNoCredentials, 0},
		"our cookie alone":   {saying(200, `{"user":{"id":"a"}}`), []string{"Cookie: __Host-agent-runs=x"}, authz.ErrNoCredentials, 0},
		"401":                {saying(401, ""), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"403":                {saying(403, ""), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"names nobody":       {saying(200, `{"user":null}`), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"no JSON":            {saying(200, `<html>`), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"an empty name":      {saying(200, `{"user":{"id":""}}`), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"a list":             {saying(200, `{"user":{"id":["a"]}}`), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"a name too long":    {saying(200, `{"user":{"id":"`+strings.Repeat("a", 256)+`"}}`), []string{"Cookie: sid=1"}, authz.ErrBadCredentials, 1},
		"404":                {saying(404, ""), []string{"Cookie: sid=1"}, authz.ErrUnavailable, 1},
		"500":                {saying(500, ""), []string{"Cookie: sid=1"}, authz.ErrUnavailable, 1},
		"a redirect":         {saying(302, "", "Location: https://elsewhere.test/"), []string{"Cookie: sid=1"}, authz.ErrUnavailable, 1},
		"an answer too long": {saying(200, strings.Repeat(" ", 1<<20+1)), []string{"Cookie: sid=1"}, authz.ErrUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backend(t, row.app, nil).Identify(request(row.fields...))
			if !errors.Is(err, row.want) || row.app.asked.Load() != row.asked {
				t.Errorf("got %v after %d questions, want %v after %d", err, row.app.asked.Load(), row.want, row.asked)
			}
		})
	}
}

func TestAnApplicationThatHangsIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &application{answer: func(*http.Request) *http.Response { return nil }}
		began := time.Now()
		_, err := backend(t, app, nil).Identify(request("Cookie: sid=1"))
		if took := time.Since(began); !errors.Is(err, authz.ErrUnavailable) || took != 5*time.Second {
			t.Errorf("got %v after %v, want unavailable after 5s", err, took)
		}
	})
}

// TestAnswersAreRememberedByCredentials: a yes for its time, a no for a moment,
// a failure not at all.
func TestAnswersAreRememberedByCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusOK
		app := &application{answer: func(r *http.Request) *http.Response {
			return response(status, `{"user":{"id":"`+strings.TrimPrefix(r.Header.Get("Cookie"), "sid=")+`"}}`)
		}}
		b := backend(t, app, nil)
		asked := func(what string, r *http.Request, want int64) {
			t.Helper()
			before := app.asked.Load()
			_, _ = b.Identify(r)
			if got := app.asked.Load() - before; got != want {
				t.Errorf("%s: asked %d times, want %d", what, got, want)
			}
		}
		alice := request("Cookie: sid=alice")
		asked("first", alice, 1)
		asked("again", alice, 0)
		asked("another cookie", request("Cookie: sid=bob"), 1)
		asked("the cookie as a token", request("Authorization: sid=alice"), 1)
		otherParty(t, identify(t, b, alice), identify(t, b, request("Cookie: sid=bob")))
		time.Sleep(30 * time.Second)
		asked("after its time", alice, 1)
		status = http.StatusUnauthorized
		time.Sleep(30 * time.Second)
		asked("logged out", alice, 1)
		asked("logged out, again", alice, 0)
		time.Sleep(2 * time.Second)
		status = http.StatusInternalServerError
		asked("a moment later", alice, 1)
		asked("broken, again", alice, 1)
	})
}

// TestEqualQuestionsAtOneTimeAreOne, and whoever leaves does not end it for the
// others.
func TestEqualQuestionsAtOneTimeAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := &application{answer: func(*http.Request) *http.Response {
			time.Sleep(time.Second)
			return response(http.StatusOK, `{"user":{"id":"alice"}}`)
		}}
		b := backend(t, app, nil)
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Identify(request("Cookie: sid=1").WithContext(ctx)); !errors.Is(err, authz.ErrUnavailable) {
				t.Errorf("who left: got %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() { identify(t, b, request("Cookie: sid=1")) })
		}
		wg.Wait()
		if got := app.asked.Load(); got != 1 {
			t.Errorf("asked %d times, want once", got)
		}
	})
}

// TestRememberedAnswersAreBounded: strangers choose what they ask with.
func TestRememberedAnswersAreBounded(t *testing.T) {
	app := saying(http.StatusOK, `{"user":{"id":"a"}}`)
	b := backend(t, app, nil)
	for i := range 10_100 {
		identify(t, b, request(fmt.Sprintf("Cookie: sid=%d", i)))
	}
	before := app.asked.Load()
	for i := range 10_100 {
		identify(t, b, request(fmt.Sprintf("Cookie: sid=%d", i)))
	}
	if got := app.asked.Load() - before; got < 100 {
		t.Errorf("asked %d times again, want at least the 100 that were forgotten", got)
	}
}

// TestARealRedirectIsNotFollowed: it would carry credentials elsewhere.
func TestARealRedirectIsNotFollowed(t *testing.T) {
	var followed atomic.Bool
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Store(true)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer app.Close()
	b := backend(t, nil, func(o *authz.BackendOptions) { o.URL, o.Transport = app.URL+"/me", nil })
	if _, err := b.Identify(request("Cookie: sid=1")); !errors.Is(err, authz.ErrUnavailable) || followed.Load() {
		t.Errorf("got %v and followed %t, want unavailable and not followed", err, followed.Load())
	}
}
