package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

func TestFrozenServerIsUnavailableAndGoesOn(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.redis.Freeze()
	began := time.Now()
	_, err := s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	if took := time.Since(began); took > 10*quick {
		t.Errorf("got the answer after %v, want it after about %v", took, quick)
	}
	s.everything(l)
	s.redis.Thaw()
	// The server carries out what it was sent while frozen: the append that
	// seemed lost, and perhaps a Stop and the end. None of it may come twice.
	testkit.Eventually(t, "the server answers", func() bool {
		_, err := s.store.Load(t.Context(), l.Run)
		return err == nil
	})
	last, err := s.store.Append(t.Context(), l, batch(1, "two"))
	if err == nil && last.Last > 2 {
		t.Errorf("got last %d, want at most 2", last.Last)
	}
	if got := s.log(s.other, l.Run); got != "one " && got != "one two " {
		t.Errorf("got frames %q, want each at most once", got)
	}
}

func TestServerThatIsDownIsUnavailableUntilItIsThere(t *testing.T) {
	s := newSite(t)
	s.redis.Kill()
	late := open(t, redisstore.Options{Addrs: []string{s.redis.Addr()}, Timeout: quick})
	_, err := late.Admit(t.Context(), admission("c"))
	s.unavailable("admission", err)
	s.redis.Start()
	testkit.Eventually(t, "the server answers", func() bool {
		_, err := late.Admit(t.Context(), admission("c"))
		return err == nil || errors.As(err, new(*runregistry.BusyError))
	})
}

func TestServerThatComesBackEmptyGetsTheRunAgain(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one", "two"))
	rec, err := s.store.Load(t.Context(), l.Run)
	if err != nil {
		t.Fatal(err)
	}
	s.redis.Kill()
	s.everything(l)
	s.redis.Start()
	testkit.Eventually(t, "the loss is told", func() bool {
		_, err := s.store.Append(t.Context(), l, batch(2, "three"))
		return errors.Is(err, runregistry.ErrNoRun)
	})
	if err := s.store.Restore(t.Context(), l, rec, batch(0, "one", "two")); err != nil {
		t.Fatal(err)
	}
	s.persist(l, batch(2, "three"))
	s.wantLog(l.Run, "one two three ")
	_, err = s.other.Admit(t.Context(), admission("c"))
	if !errors.As(err, new(*runregistry.BusyError)) {
		t.Errorf("got error %v, want that the conversation is busy", err)
	}
}

func TestReplicaThatBecameReadOnlyIsUnavailable(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.redis.Do("CONFIG", "SET", "replica-serve-stale-data", "yes")
	s.redis.Do("REPLICAOF", "127.0.0.1", "1")
	_, err := s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	_, err = s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
	s.unavailable("settle", err)
	_, err = s.store.Admit(t.Context(), admission("other"))
	s.unavailable("admission", err)
	s.redis.Do("REPLICAOF", "NO", "ONE")
	s.persist(l, batch(1, "two"))
	s.wantLog(l.Run, "one two ")
}

func TestFullServerTakesTheEndOfARun(t *testing.T) {
	s := newSite(t, "maxmemory-policy noeviction")
	l := s.running("c")
	s.persist(l, batch(0, "one"))
	s.redis.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := s.store.Admit(t.Context(), admission("other"))
	s.unavailable("admission", err)
	_, err = s.store.Append(t.Context(), l, batch(1, "two"))
	s.unavailable("append", err)
	renewals, err := s.store.Renew(t.Context(), []runregistry.Lease{l})
	if err != nil || renewals[0].Err != nil || renewals[0].Last != 1 {
		t.Errorf("renewing on a full server: got %v and error %v", renewals, err)
	}
	rec, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
	if err != nil || rec.State != runregistry.Completed {
		t.Fatalf("settling on a full server: got %v and error %v", rec, err)
	}
	s.wantLog(l.Run, "one ")
	s.redis.Do("CONFIG", "SET", "maxmemory", "0")
	if _, err := s.store.Admit(t.Context(), admission("c")); err != nil {
		t.Errorf("the conversation is not free: %v", err)
	}
}

func TestScriptsThatAServerForgotAreSentAgain(t *testing.T) {
	s := newSite(t)
	l := s.running("c")
	for i := range runregistry.Seq(5) {
		s.redis.Do("SCRIPT", "FLUSH")
		if _, err := s.store.Append(t.Context(), l, batch(i, fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	s.redis.Do("SCRIPT", "FLUSH")
	if _, err := s.store.Settle(t.Context(), l, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
		t.Fatal(err)
	}
	s.wantLog(l.Run, "1 2 3 4 5 ")
}
