package proxy

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

// TestAWayIsOfOneHandlerAlone: where two could be meant, the credentials of one
// backend would go to another.
func TestAWayIsOfOneHandlerAlone(t *testing.T) {
	type known struct {
		realm, name string // of the configuration
		noted       string // the realm of a request that came, if one did
	}
	for name, c := range map[string]struct {
		handlers []known
		found    int // -1: none
		way      bool
	}{
		"the one that served the realm": {[]known{{noted: "a"}, {noted: "b"}}, 0, true},
		"of that realm by its words":    {[]known{{realm: "b"}, {realm: "a"}}, 1, false},
		"the only one there is":         {[]known{{}}, 0, false},
		"of another realm":              {[]known{{realm: "b", noted: "b"}}, -1, false},
		"of another route":              {[]known{{name: "other", noted: "a"}}, -1, false},
		"two that served the realm":     {[]known{{noted: "a"}, {noted: "a"}}, -1, false},
		"two that nobody has asked":     {[]known{{}, {}}, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var all routes
			handlers := make([]*Handler, len(c.handlers))
			for i, k := range c.handlers {
				handlers[i] = &Handler{cfg: Config{Realm: k.realm, Name: k.name}}
				all.register(handlers[i])
				if k.noted != "" {
					all.known[handlers[i]][k.noted] = &ground{next: func(http.ResponseWriter, *http.Request) error { return nil }}
				}
			}
			h, g, ok := all.of(&runregistry.Record{Route: defaultRoute, Subject: runregistry.Subject{Realm: "a"}})
			if ok != (c.found >= 0) || ok && (h != handlers[c.found] || (g.next != nil) != c.way) {
				t.Errorf("got a handler %t, with a way %t", ok, g != nil && g.next != nil)
			}
			if ok {
				all.forget(h)
				if now, _, _ := all.of(&runregistry.Record{Route: defaultRoute, Subject: runregistry.Subject{Realm: "a"}}); now == h {
					t.Error("a handler of an old configuration is still asked")
				}
			}
		})
	}
}

// TestARunIsLeftForAMomentToWhoCanGoOnWithIt, but not for long, and never one
// that nobody can go on with.
func TestARunIsLeftForAMomentToWhoCanGoOnWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := embeddedstore.New(embeddedstore.Options{})
		t.Cleanup(func() { store.Close() })
		k := &keeper{engine: NewEngine(store, slog.New(slog.DiscardHandler), NewMetrics()), left: map[runregistry.RunID]time.Time{}}
		plain, joinable := begun(t, store, ""), begun(t, store, "7")
		for _, c := range []struct {
			after       time.Duration
			plain, join bool
		}{{0, false, true}, {yieldPatience - 1, false, true}, {1, false, false}} {
			time.Sleep(c.after)
			if p, j := k.yields(t.Context(), plain), k.yields(t.Context(), joinable); p != c.plain || j != c.join {
				t.Errorf("after %v more: left to others %t and %t, want %t and %t", c.after, p, j, c.plain, c.join)
			}
		}
		clear(k.left)
		h := &Handler{}
		k.engine.routes.register(h)
		if !k.yields(t.Context(), joinable) {
			t.Error("not left to others although no request has shown the way")
		}
		k.engine.routes.known[h]["a"] = &ground{next: func(http.ResponseWriter, *http.Request) error { return nil }}
		if k.yields(t.Context(), joinable) {
			t.Error("left to others although there is a way")
		}
	})
}

// begun is a run whose log has one frame at a position of upstream's.
func begun(t *testing.T, store runregistry.Store, position string) runregistry.RunID {
	t.Helper()
	subject := runregistry.Subject{Realm: "a", Sub: "u"}
	d, err := store.Admit(t.Context(), &runregistry.Admission{
		Run: runregistry.NewRunID(0), Subject: subject, Scope: runregistry.SubjectScope(subject), Route: defaultRoute,
		Retention: runregistry.Retention{Frames: time.Hour, Record: time.Hour},
		Dialect:   "openai-responses", Origin: []byte(`{"p":"/v1/responses","f":{"background":true}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	if _, err = store.Intend(t.Context(), d.Lease); err == nil {
		_, err = store.Append(t.Context(), d.Lease, &runregistry.Batch{
			Frames: [][]byte{[]byte("data: 1\n\n")}, Position: position,
			Progress: &runregistry.Progress{UpstreamID: "resp_1", Response: &runregistry.Response{Status: 200, Stream: true}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Record.ID
}
