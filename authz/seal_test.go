package authz

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const sealField = "X-Run-Id"

func sealWith(b byte) *Seal {
	return NewSeal(func() ([]byte, error) { return []byte(strings.Repeat(string(b), MinSecret)), nil })
}

// sealed returns the field of a request that a server sealed.
func sealed(t *testing.T) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions?x=1", nil)
	if err := sealWith('a').Set(r, sealField, "run_1"); err != nil {
		t.Fatal(err)
	}
	return r.Header.Get(sealField)
}

// TestASealIsGoodForItsRequest alone, and the field is gone whatever it was.
func TestASealIsGoodForItsRequest(t *testing.T) {
	good := sealed(t)
	cases := []struct {
		name, method, path string
		values             []string
		key                byte
		want               bool
	}{
		{"as it was sealed", http.MethodPost, "/v1/chat/completions", []string{good}, 'a', true},
		{"below another prefix", http.MethodPost, "/completions?y", []string{good}, 'a', true},
		{"another method", http.MethodGet, "/v1/chat/completions", []string{good}, 'a', false},
		{"another path", http.MethodPost, "/v1/chat/completions/x", []string{good}, 'a', false},
		{"another key", http.MethodPost, "/v1/chat/completions", []string{good}, 'b', false},
		{"another name", http.MethodPost, "/v1/chat/completions", []string{strings.Replace(good, "run_1", "run_2", 1)}, 'a', false},
		{"a longer life", http.MethodPost, "/v1/chat/completions", []string{strings.Replace(good, "until=", "until=9", 1)}, 'a', false},
		{"twice", http.MethodPost, "/v1/chat/completions", []string{good, good}, 'a', false},
		{"a bare id", http.MethodPost, "/v1/chat/completions", []string{"run_1"}, 'a', false},
		{"no mac", http.MethodPost, "/v1/chat/completions", []string{"run_1;until=99999999999;mac="}, 'a', false},
		{"nothing", http.MethodPost, "/v1/chat/completions", nil, 'a', false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Header[sealField] = c.values
			if got := sealWith(c.key).Take(r, sealField); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
			if _, there := r.Header[sealField]; there {
				t.Error("the field is still there")
			}
		})
	}
}

// TestASealDoesNotLast.
func TestASealDoesNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := sealed(t)
		time.Sleep(time.Minute)
		r := httptest.NewRequest(http.MethodPost, "/completions", nil)
		r.Header.Set(sealField, value)
		if !sealWith('a').Take(r, sealField) {
			t.Error("after a minute it is no longer good")
		}
		time.Sleep(2 * time.Minute)
		r.Header.Set(sealField, value)
		if sealWith('a').Take(r, sealField) {
			t.Error("after three minutes it is still good")
		}
	})
}

// TestWithoutItsKeyNothingIsSealed or believed.
func TestWithoutItsKeyNothingIsSealed(t *testing.T) {
	s := NewSeal(func() ([]byte, error) { return nil, errors.New("away") })
	r := httptest.NewRequest(http.MethodPost, "/completions", nil)
	if err := s.Set(r, sealField, "run_1"); !errors.Is(err, ErrUnavailable) || r.Header.Get(sealField) != "" {
		t.Errorf("got %v and the field %q", err, r.Header.Get(sealField))
	}
	r.Header.Set(sealField, sealed(t))
	if s.Take(r, sealField) {
		t.Error("it was believed")
	}
}
