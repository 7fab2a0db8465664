package testkit

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// StartReplica starts a replica and waits until it is up to date.
func StartReplica(t testing.TB, of *Redis, settings ...string) *Redis {
	t.Helper()
	r := StartRedis(t, append(settings, fmt.Sprint("replicaof 127.0.0.1 ", of.Port))...)
	r.Follows()
	return r
}

// Follows waits until a replica is up to date.
func (r *Redis) Follows() {
	r.t.Helper()
	r.awaits("the replica follows", follows)
}

// CatchUp waits until a replica has all that its master has written.
func (r *Redis) CatchUp(master *Redis) {
	r.t.Helper()
	from := master.Client()
	defer func() { _ = from.Close() }()
	r.awaits("the replica has all that was written", func(c *redis.Client) bool {
		theirs, ours := replication(from), replication(c)
		at := infoNumber(theirs, "master_repl_offset")
		return at > 0 && infoNumber(ours, "slave_repl_offset") >= at
	})
}

// FallBehind ends the replication of a master for good: what is written from
// now on, the replica does not have.
func (r *Redis) FallBehind(master *Redis) {
	r.t.Helper()
	r.Do("CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong") // it will not be let in again
	master.Do("CLIENT", "KILL", "TYPE", "replica")
	r.awaits("the replica is cut off", func(c *redis.Client) bool {
		return infoText(replication(c), "master_link_status") == "down"
	})
	master.awaits("the master has no replica", func(c *redis.Client) bool {
		return infoNumber(replication(c), "connected_slaves") == 0
	})
}

func (r *Redis) awaits(what string, ok func(*redis.Client) bool) {
	r.t.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	Eventually(r.t, what, func() bool { return ok(c) })
}

// follows reports whether a replica is up to date.
func follows(c *redis.Client) bool {
	info := replication(c)
	return infoText(info, "role") == "slave" && infoText(info, "master_link_status") == "up"
}

// replication is what a server says about it, or "".
func replication(c *redis.Client) string {
	info, err := c.Info(context.Background(), "replication").Result()
	if err != nil {
		return ""
	}
	return info
}
