package redisstore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// orphans is a store with a run whose lease is at its end, and another instance
// that looks for such runs.
type orphans struct {
	*testing.T

	other *redisstore.Store
	run   runregistry.RunID
	redis *redis.Client
	down  func(string)
}

const orphanLease = 15 * time.Second

func inOrphanage(t *testing.T, test func(*orphans)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := testkit.StartBubbleRedis(t)
		c := redis.NewClient(&redis.Options{Addr: testkit.BubbleAddr, Dialer: r.Dial})
		defer func() { _ = c.Close() }()
		owner, other := open(t, bubbleOptions(r)), open(t, bubbleOptions(r))
		owner.Hold(runregistry.NewInstanceID(), orphanLease)
		other.Hold(runregistry.NewInstanceID(), orphanLease)
		d, err := owner.Admit(t.Context(), admission("c"))
		if err == nil {
			d.Watch.Close()
			_, err = owner.Intend(t.Context(), d.Lease)
		}
		if err != nil {
			t.Fatal(err)
		}
		test(&orphans{T: t, other: other, run: d.Lease.Run, redis: c, down: r.SetError})
	})
}

// looks tells whether the other instance finds the run. It looks as often as
// gateways do.
func (o *orphans) looks() bool {
	o.Helper()
	time.Sleep(orphanLease / 3) // in the bubble of inOrphanage
	ids, err := o.other.Expired(o.Context(), 10)
	if err != nil {
		o.Log(err)
	}
	return slices.Contains(ids, o.run)
}

// wantPatience checks that the owner gets a whole lease from the look on that
// found out.
func (o *orphans) wantPatience() {
	o.Helper()
	for range 2 {
		if o.looks() {
			o.Fatal("the lease was believed to have expired at once")
		}
	}
	if !o.looks() {
		o.Error("the lease was not believed to have expired after another one")
	}
}

// missed is a look at which the run must not be found.
func (o *orphans) missed() {
	o.Helper()
	if o.looks() {
		o.Fatal("the lease was believed to have expired")
	}
}

// forget is a failover: of what was written since a while nothing is left.
func (o *orphans) forget() {
	o.Helper()
	if err := o.redis.Del(o.Context(), o.marks()...).Err(); err != nil {
		o.Fatal(err)
	}
}

func (o *orphans) marks() []string {
	o.Helper()
	keys, err := o.redis.Keys(o.Context(), "ag:{p*}:b:*").Result()
	if err != nil || len(keys) != runregistry.Partitions {
		o.Fatalf("got %d marks and error %v, want one of each partition", len(keys), err)
	}
	return keys
}

func TestADeadOwnersRunIsFoundWithItsLease(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.missed()
		o.missed()
		if !o.looks() {
			t.Error("did not get it at the end of its lease")
		}
	})
}

// Whoever saw nothing of a failover must not believe the leases that are left.
func TestOwnersRenewFirstAfterAFailoverThatNobodySaw(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.missed()
		o.missed()
		o.forget()
		o.missed()
		o.wantPatience()
	})
}

func TestOwnersRenewFirstAfterAnOutage(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.missed()
		o.missed()
		o.down("LOADING Redis is loading the dataset in memory")
		o.missed()
		o.down("")
		o.wantPatience()
	})
}

// Who was away itself knows nothing of what happened meanwhile.
func TestOwnersRenewFirstAfterALookerWasAway(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.missed()
		time.Sleep(orphanLease) // in the bubble of inOrphanage
		o.missed()
		o.wantPatience()
	})
}

// It saw the beginning of an outage and nothing of its end.
func TestOwnersRenewFirstAfterALookerWasAwayInAnOutage(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.missed()
		o.down("LOADING Redis is loading the dataset in memory")
		o.missed()
		o.down("")
		time.Sleep(2 * orphanLease) // in the bubble of inOrphanage
		o.missed()
		o.wantPatience()
	})
}

// Marks are no run's: they go when their gateway does.
func TestMarksGoWithTheirGateway(t *testing.T) {
	inOrphanage(t, func(o *orphans) {
		o.looks()
		for _, key := range o.marks() {
			if ttl := o.redis.PTTL(o.Context(), key).Val(); ttl <= 0 || ttl > 4*orphanLease {
				t.Errorf("got %s for %v, want at most four leases", key, ttl)
			}
		}
	})
}
