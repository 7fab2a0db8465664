package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// issuer is a server of keys without a network, so that its tests can run in a
// bubble.
type issuer struct {
	mu      sync.Mutex
	set     string        // what it serves; empty is down
	header  http.Header   // of its answers
	delay   time.Duration // before an answer
	fetches []time.Time
}

func (i *issuer) serve(set string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = set
}

func (i *issuer) asked() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// RoundTrip implements [http.RoundTripper].
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	set, header, delay := i.set, i.header, i.delay
	i.fetches = append(i.fetches, time.Now())
	i.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if set == "" {
		return nil, errors.New("connection refused")
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(set)), Request: r,
	}, nil
}

const keysURL = "https://login.example/keys"

// remote returns the key set of an issuer, closed with the test.
func remote(t *testing.T, i *issuer) *keyset.Remote {
	t.Helper()
	s, err := keyset.NewRemote(keysURL, i, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// set returns a key set of Ed25519 keys with these ids.
func set(ids ...string) string {
	var keys []string
	for _, id := range ids {
		keys = append(keys, fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`, id))
	}
	return `{"keys":[` + strings.Join(keys, ",") + `]}`
}

func lookup(t *testing.T, s keyset.Set, kid string) error {
	t.Helper()
	found, err := s.Lookup(t.Context(), kid, "EdDSA")
	if (len(found) > 0) != (err == nil) {
		t.Errorf("kid %q: got %d keys and %v, want one of them", kid, len(found), err)
	}
	return err
}

func wantFound(t *testing.T, s keyset.Set, kid string) {
	t.Helper()
	if err := lookup(t, s, kid); err != nil {
		t.Errorf("kid %q: got %v, want a key", kid, err)
	}
}

func wantErr(t *testing.T, s keyset.Set, kid string, want error) {
	t.Helper()
	if err := lookup(t, s, kid); !errors.Is(err, want) {
		t.Errorf("kid %q: got %v, want %v", kid, err, want)
	}
}

// mostIn30Seconds is the largest number of fetches in any 30 seconds.
func mostIn30Seconds(fetches []time.Time) (most int) {
	for n, first := range fetches {
		in := 0
		for _, f := range fetches[n:] {
			if f.Sub(first) < 30*time.Second {
				in++
			}
		}
		most = max(most, in)
	}
	return most
}

func TestRemoteAsksNobodyBeforeItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{set: set("a")}
		s := remote(t, i)
		time.Sleep(time.Hour)
		if got := len(i.asked()); got != 0 {
			t.Errorf("fetches before the first lookup: got %d, want none", got)
		}
		wantFound(t, s, "a")
	})
}

// Promises 4 and 5: the steps of case 50, whose tokens the tests of package jwt
// send.
func TestRemoteSurvivesRotationFloodAndOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := new(issuer)
		s := remote(t, i)
		wantErr(t, s, "old", keyset.ErrUnavailable)
		time.Sleep(5 * time.Second)
		i.serve(set("old"))
		time.Sleep(10 * time.Second)
		wantFound(t, s, "old")
		before := len(i.asked())
		for n := range 200 {
			wantErr(t, s, fmt.Sprintf("rand-%d", n), keyset.ErrUnknownKey)
			time.Sleep(50 * time.Millisecond)
		}
		i.serve(set("old", "new"))
		waited := time.Now()
		for lookup(t, s, "new") != nil {
			time.Sleep(time.Second)
		}
		if got := time.Since(waited); got > 30*time.Second {
			t.Errorf("new key: got it after %v, want at most 30s", got)
		}
		if got := mostIn30Seconds(i.asked()[before:]); got > 2 {
			t.Errorf("fetches in 30 seconds: got %d, want 2 or less", got)
		}
		i.serve("")
		time.Sleep(time.Hour)
		wantFound(t, s, "old")
		wantFound(t, s, "new")
		down := len(i.asked())
		time.Sleep(10 * time.Hour)
		if got := len(i.asked()) - down; got > 61 {
			t.Errorf("fetches in ten hours of outage: got %d, want no more than one in ten minutes", got)
		}
		time.Sleep(14 * time.Hour)
		wantErr(t, s, "old", keyset.ErrUnavailable)
		i.serve(set("old"))
		time.Sleep(10 * time.Minute)
		wantFound(t, s, "old")
	})
}

// A first fetch that fails starts no cooldown.
func TestRemoteIsThereSoonAfterItsIssuer(t *testing.T) {
	for _, down := range []time.Duration{time.Second, 5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			i := new(issuer)
			s := remote(t, i)
			wantErr(t, s, "a", keyset.ErrUnavailable)
			time.Sleep(down)
			i.serve(set("a"))
			time.Sleep(9 * time.Second)
			wantFound(t, s, "a")
		})
	}
}

func TestRemoteSharesOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{set: set("a"), delay: 2 * time.Second}
		s := remote(t, i)
		ask := func(kids ...string) {
			var wg sync.WaitGroup
			for n := range 50 {
				wg.Go(func() { _ = lookup(t, s, kids[n%len(kids)]) })
			}
			wg.Wait()
		}
		ask("a")
		if got := len(i.asked()); got != 1 {
			t.Errorf("fetches for 50 first lookups: got %d, want 1", got)
		}
		time.Sleep(time.Minute)
		ask("x", "y", "z")
		if got := len(i.asked()); got != 2 {
			t.Errorf("fetches after 50 lookups of unknown keys: got %d, want 2", got)
		}
	})
}

// A known key waits for nobody.
func TestRemoteAnswersWhileItFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{set: set("a")}
		s := remote(t, i)
		wantFound(t, s, "a")
		time.Sleep(time.Minute)
		i.mu.Lock()
		i.delay = 4 * time.Second
		i.mu.Unlock()
		done := make(chan struct{})
		go func() { defer close(done); wantErr(t, s, "unknown", keyset.ErrUnknownKey) }()
		synctest.Wait()
		began := time.Now()
		wantFound(t, s, "a")
		if got := time.Since(began); got > 0 {
			t.Errorf("lookup of a known key: took %v, want nothing", got)
		}
		<-done
	})
}

func TestRemoteForgetsWhatTheIssuerTookBack(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 10 * time.Minute, "no-cache": 10 * time.Minute, "max-age=300, public": 5 * time.Minute,
		"public, MAX-AGE=1": time.Minute, "max-age=99999999": 24 * time.Hour, "max-age=-1": 10 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &issuer{set: set("a", "b"), header: http.Header{"Cache-Control": {header}}}
			s := remote(t, i)
			wantFound(t, s, "a")
			i.serve(set("b"))
			time.Sleep(want - time.Second)
			wantFound(t, s, "a")
			time.Sleep(2 * time.Second)
			wantErr(t, s, "a", keyset.ErrUnknownKey)
		})
	}
}

func TestRemoteLookupEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := remote(t, &issuer{set: set("a"), delay: 4 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lookup(ctx, "a", "EdDSA"); !errors.Is(err, keyset.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, keyset.ErrUnavailable)
		}
	})
}

// An issuer that does not answer is given up after 5 seconds; Close waits for
// nobody. The bubble would fail for a goroutine that is left.
func TestRemoteEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{delay: time.Hour}
		s := remote(t, i)
		began := time.Now()
		wantErr(t, s, "a", keyset.ErrUnavailable)
		if got := time.Since(began); got != 5*time.Second {
			t.Errorf("lookup at an issuer that hangs: took %v, want 5s", got)
		}
		s.Close()
		s.Close()
		before := len(i.asked())
		wantErr(t, s, "a", keyset.ErrUnavailable)
		time.Sleep(time.Hour)
		if got := len(i.asked()); got != before {
			t.Errorf("fetches after Close: got %d, want none", got-before)
		}
		never := remote(t, i)
		never.Close()
		wantErr(t, never, "a", keyset.ErrUnavailable)
	})
}
