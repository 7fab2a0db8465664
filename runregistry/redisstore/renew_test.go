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

// TestADeadMasterCostsTheOthersNoLease: a Cluster needs longer for a failover
// than a lease lasts, and a gateway has more runs than fit into one pipeline.
func TestADeadMasterCostsTheOthersNoLease(t *testing.T) {
	t.Parallel()
	c := testkit.StartRedisCluster(t)
	s := open(t, redisstore.Options{Addrs: c.Addrs(), Timeout: quick})
	s.Hold("one", time.Hour)
	on := make(map[runregistry.Partition]int)
	var leases []runregistry.Lease
	for n := range 600 {
		sub := runregistry.Subject{Realm: "chat", Sub: fmt.Sprint(n)}
		a := admission("c")
		a.Subject, a.Scope = sub, runregistry.SubjectScope(sub)
		at := runregistry.PartitionOf(string(a.Scope))
		a.Run = runregistry.NewRunID(at)
		d, err := s.Admit(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		d.Watch.Close()
		leases = append(leases, d.Lease)
		if _, known := on[at]; !known {
			on[at] = c.MasterOf(c.Masters[0].Do("CLUSTER", "KEYSLOT", fmt.Sprintf("{p%02d}", at)).(int64))
		}
	}
	c.Masters[1].Kill()
	began := time.Now()
	renewals, err := s.Renew(t.Context(), leases)
	if err != nil {
		t.Fatalf("got error %v though two masters live", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for i, r := range renewals {
		if dead := on[leases[i].Run.Partition()] == 1; errors.Is(r.Err, runregistry.ErrUnavailable) != dead || r.Err != nil && !dead {
			t.Fatalf("got error %v for a run on master %d, where 1 is dead", r.Err, on[leases[i].Run.Partition()])
		}
	}
	for _, r := range c.Masters {
		if r != c.Masters[1] {
			r.Kill()
		}
	}
	if _, err := s.Renew(t.Context(), leases); !errors.Is(err, runregistry.ErrUnavailable) {
		t.Errorf("got error %v from no server, want %v", err, runregistry.ErrUnavailable)
	}
}
