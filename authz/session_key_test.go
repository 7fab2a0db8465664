package authz_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// counted returns a session whose key is loaded by load, and how often.
func counted(t *testing.T, load func() ([]byte, error)) (*authz.Session, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	return session(t, authz.Options{Secret: func() ([]byte, error) {
		calls.Add(1)
		return load()
	}}), &calls
}

func TestKeyIsLoadedWhenFirstNeeded(t *testing.T) {
	s, calls := counted(t, func() ([]byte, error) { return secret, nil })
	identify(t, s, request())
	identify(t, s, request("Sec-Fetch-Site: same-origin", "Authorization: Bearer sk-1", "Cookie: app=1"))
	s.PageLoad(request(), http.StatusOK, page())
	s.Strip(request().Header)
	if got := calls.Load(); got != 0 {
		t.Errorf("got %d loads for requests of nobody, want 0", got)
	}
	for range 3 {
		identify(t, s, request("x-api-key: sk-1"))
		newcomer(t, s, request(), "")
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("got %d loads, want 1", got)
	}
}

func TestMissingKeyIsUnavailableAndNobodyElse(t *testing.T) {
	down := errors.New("storage is down")
	s, _ := counted(t, func() ([]byte, error) { return nil, down })
	for _, r := range []*http.Request{holding("x"), request("x-api-key: sk-1")} {
		c, err := s.Identify(r)
		if !errors.Is(err, authz.ErrUnavailable) || !errors.Is(err, down) || c.Known {
			t.Errorf("got %+v and %v, want nobody and an unavailable identity", c, err)
		}
		if errors.Is(err, authz.ErrNoCredentials) || errors.Is(err, authz.ErrBadCredentials) {
			t.Errorf("got %v, want it not to blame the caller", err)
		}
	}
	if c, cookie, err := s.Newcomer(request(), "", nil); !errors.Is(err, authz.ErrUnavailable) || c.Known || cookie != nil {
		t.Errorf("got %+v, %v and %v, want only an error", c, cookie, err)
	}
	if cookie := s.PageLoad(navigation(), http.StatusOK, page()); cookie != nil {
		t.Errorf("got cookie %v without a key, want none", cookie)
	}
}

func TestShortKeyIsRefused(t *testing.T) {
	s, _ := counted(t, func() ([]byte, error) { return make([]byte, authz.MinSecret-1), nil })
	_, _, err := s.Newcomer(request(), "", nil)
	if !errors.Is(err, authz.ErrUnavailable) || !strings.Contains(err.Error(), "31 bytes, at least 32") {
		t.Errorf("got %v, want an error that names both lengths", err)
	}
}

func TestFailedLoadIsTriedAgain(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	s, calls := counted(t, func() ([]byte, error) {
		if fail.Load() {
			return nil, errors.New("storage is down")
		}
		return secret, nil
	})
	if _, err := s.Identify(request("x-api-key: sk-1")); err == nil {
		t.Fatal("got no error, want one")
	}
	fail.Store(false)
	identify(t, s, request("x-api-key: sk-1"))
	if got := calls.Load(); got != 2 {
		t.Errorf("got %d loads, want 2", got)
	}
}

func TestKeyDoesNotFollowTheSlotItCameIn(t *testing.T) {
	shared := []byte(strings.Repeat("k", authz.MinSecret))
	s, _ := counted(t, func() ([]byte, error) { return shared, nil })
	before := identify(t, s, request("x-api-key: sk-1"))
	clear(shared)
	sameParty(t, identify(t, s, request("x-api-key: sk-1")), before)
}

// A store that hangs must not make requests queue for it one after the other.
func TestRequestsShareOneLoad(t *testing.T) {
	for name, fails := range map[string]error{"that succeeds": nil, "that fails": errors.New("storage is down")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, calls := counted(t, func() ([]byte, error) {
					time.Sleep(5 * time.Second)
					return secret, fails
				})
				began := time.Now()
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						_, err := s.Identify(request("x-api-key: sk-1"))
						if !errors.Is(err, fails) {
							t.Errorf("got %v, want %v", err, fails)
						}
					})
				}
				wg.Wait()
				if got := time.Since(began); got != 5*time.Second || calls.Load() != 1 {
					t.Errorf("got %v and %d loads, want 5s and 1", got, calls.Load())
				}
			})
		})
	}
}

func TestWaitingRequestEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := counted(t, func() ([]byte, error) {
			time.Sleep(time.Minute)
			return secret, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { identify(t, s, request("x-api-key: sk-1")) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Identify(request("x-api-key: sk-1").WithContext(ctx))
		if !errors.Is(err, authz.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an unavailable identity because of the deadline", err)
		}
		wg.Wait()
	})
}

func TestPanicWhileLoadingReleasesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		s := session(t, authz.Options{Secret: func() ([]byte, error) {
			if calls.Add(1) == 1 {
				time.Sleep(time.Second)
				panic("broken storage module")
			}
			return secret, nil
		}})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("got no panic, want it to reach its request")
				}
			}()
			_, _ = s.Identify(request("x-api-key: sk-1"))
		})
		synctest.Wait()
		if _, err := s.Identify(request("x-api-key: sk-1")); !errors.Is(err, authz.ErrUnavailable) {
			t.Errorf("got %v, want an unavailable identity", err)
		}
		wg.Wait()
		identify(t, s, request("x-api-key: sk-1"))
	})
}

func TestSessionIsSafeForConcurrentUse(t *testing.T) {
	s := boundTo(t, authz.Source{In: authz.InCookie, Name: "sid"})
	own, cookie := newcomer(t, s, request(), "key-1")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				got, err := s.Identify(request(carry(cookie)))
				keyed, _, keyedErr := s.Newcomer(request(), "key-1", []byte("fingerprint"))
				if err != nil || keyedErr != nil || got.Subject != own.Subject || keyed.Subject != own.Subject {
					t.Errorf("got %+v (%v) and %+v (%v), want %+v twice", got, err, keyed, keyedErr, own.Subject)
				}
				s.PageLoad(navigation(), http.StatusOK, page())
			}
		})
	}
	wg.Wait()
}
