package redisstore

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// A gateway that died between the reservation and the start leaves a guest that
// never comes. It counts for as long as a start may take, and no longer.
func TestReservationWithoutAStartIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testkit.StartBubbleRedis(t)
		s, err := Open(Options{Addrs: []string{testkit.BubbleAddr}, Dialer: r.Dial, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sub := runregistry.Subject{Realm: "chat", Sub: "s"}
		ask := func(scope runregistry.Scope) *runregistry.Admission {
			return &runregistry.Admission{
				Run: runregistry.NewRunID(partition(scope)), Subject: sub, Scope: scope, ActiveLimit: 1,
				Retention: runregistry.Retention{Record: time.Minute},
			}
		}
		if err := s.reserve(t.Context(), ask(runregistry.TenantScope(sub)), nil); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		d, err := s.Admit(t.Context(), ask(runregistry.SubjectScope(sub)))
		if err != nil {
			t.Fatalf("got error %v, want a start after the reservation is forgotten", err)
		}
		defer d.Watch.Close()
		if took := time.Since(begun); took < starting || took > 2*starting {
			t.Errorf("got a start after %v, want it after %v", took, starting)
		}
		if _, err := s.Admit(t.Context(), ask(runregistry.TenantScope(sub))); !errors.As(err, new(*runregistry.LimitError)) {
			t.Errorf("got error %v, want that the limit is reached", err)
		}
	})
}
