package authz_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestSessionEndsAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.TTL = time.Hour
		s := session(t, o)
		own, cookie := newcomer(t, s, request(), "")
		ends := time.Now().Add(time.Hour)
		if got := identify(t, s, request(carry(cookie))); !got.Expires.Equal(ends) || !own.Expires.Equal(ends) {
			t.Errorf("got expiry %v and %v, want %v", own.Expires, got.Expires, ends)
		}
		time.Sleep(time.Hour - time.Second)
		sameParty(t, identify(t, s, request(carry(cookie))), own)
		time.Sleep(time.Second)
		if got := identify(t, s, request(carry(cookie))); got.Known {
			t.Errorf("got subject %+v at the end of the session, want nobody", got.Subject)
		}
	})
}

func TestPageLoadRenewsASessionPastHalfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.TTL = time.Hour
		s := session(t, o)
		own, first := newcomer(t, s, request(), "")
		time.Sleep(30*time.Minute - time.Second)
		if got := s.PageLoad(navigation(carry(first)), http.StatusOK, page()); got != nil {
			t.Errorf("got %v before half time, want no cookie", got)
		}
		time.Sleep(time.Second)
		second := s.PageLoad(navigation(carry(first)), http.StatusOK, page())
		if second == nil {
			t.Fatal("got no cookie at half time, want a renewed one")
		}
		time.Sleep(59 * time.Minute)
		sameParty(t, identify(t, s, request(carry(second))), own)
		if got := identify(t, s, request(carry(first))); got.Known {
			t.Errorf("got subject %+v for the cookie before, want nobody", got.Subject)
		}
	})
}

// Between a page load and its answer a browser may send old and new.
func TestOldAndNewCookieOfOneSessionAreOneParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.TTL = time.Hour
		s := session(t, o)
		own, first := newcomer(t, s, request(), "")
		time.Sleep(40 * time.Minute)
		second := s.PageLoad(navigation(carry(first)), http.StatusOK, page())
		for _, r := range []*http.Request{request(carry(first), carry(second)), request(carry(second), carry(first))} {
			got := identify(t, s, r)
			sameParty(t, got, own)
			if want := time.Now().Add(time.Hour); !got.Expires.Equal(want) {
				t.Errorf("got expiry %v, want that of the newer, %v", got.Expires, want)
			}
		}
	})
}

// Instances' clocks differ; the signature says that one of them issued it.
func TestSessionFromAClockAheadIsGood(t *testing.T) {
	var ahead *http.Cookie
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(5 * time.Second)
		_, ahead = newcomer(t, session(t, options()), request(), "")
	})
	synctest.Test(t, func(t *testing.T) {
		if got := identify(t, session(t, options()), request(carry(ahead))); !got.Known {
			t.Error("got nobody, want a subject")
		}
	})
}
