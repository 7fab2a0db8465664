package testkit

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RedisCluster is a Cluster of three masters, the first of which has a replica.
type RedisCluster struct {
	Masters []*Redis
	Replica *Redis
}

// slots of a Cluster.
const slots = 16384

// StartRedisCluster starts one and waits until all its servers agree.
func StartRedisCluster(t testing.TB, settings ...string) *RedisCluster {
	t.Helper()
	settings = append([]string{
		"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 1500",
		"cluster-replica-validity-factor 0", "repl-diskless-sync-delay 0",
	}, settings...)
	c := &RedisCluster{Replica: StartRedis(t, settings...)}
	for range 3 {
		c.Masters = append(c.Masters, StartRedis(t, settings...))
	}
	for i, m := range c.Masters {
		m.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		m.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, r := range append(c.Masters[1:], c.Replica) {
		c.Masters[0].Do("CLUSTER", "MEET", "127.0.0.1", r.Port)
	}
	c.wait(t, "the servers know each other", func(r *redis.Client) bool { return known(r) == 4 })
	c.Replica.Do("CLUSTER", "REPLICATE", fmt.Sprint(c.Masters[0].Do("CLUSTER", "MYID")))
	c.wait(t, "the cluster is ready", ready)
	c.Replica.Follows()
	return c
}

func (c *RedisCluster) wait(t testing.TB, what string, ok func(*redis.Client) bool) {
	t.Helper()
	for _, r := range c.all() {
		client := r.Client()
		Eventually(t, what, func() bool { return ok(client) })
		_ = client.Close()
	}
}

func (c *RedisCluster) all() []*Redis { return append(append([]*Redis{}, c.Masters...), c.Replica) }

// known is how many servers a server of a Cluster knows.
func known(c *redis.Client) int {
	slice, err := c.Do(context.Background(), "CLUSTER", "INFO").Text()
	if err != nil {
		return 0
	}
	return infoNumber(slice, "cluster_known_nodes")
}

func ready(c *redis.Client) bool {
	info, err := c.Do(context.Background(), "CLUSTER", "INFO").Text()
	return err == nil && infoText(info, "cluster_state") == "ok" && infoNumber(info, "cluster_slots_ok") == slots
}

// MasterOf is the number of the master that has a slot when the Cluster starts.
func (c *RedisCluster) MasterOf(slot int64) int {
	at := 0
	for at+1 < len(c.Masters) && slot >= int64((at+1)*slots/3) {
		at++
	}
	return at
}

// Down waits until a server of the Cluster says that all of it is.
func (c *RedisCluster) Down(server *Redis) {
	server.t.Helper()
	server.awaits("the cluster is down", func(r *redis.Client) bool {
		info, err := r.Do(context.Background(), "CLUSTER", "INFO").Text()
		return err == nil && infoText(info, "cluster_state") == "fail"
	})
}

// Addrs are those of the masters.
func (c *RedisCluster) Addrs() []string {
	addrs := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		addrs[i] = m.Addr()
	}
	return addrs
}

// RedisSentinel is a server with a replica, and three Sentinels that watch them
// as "mymaster".
type RedisSentinel struct {
	Master, Replica *Redis
	Sentinels       []*Redis
}

// StartRedisSentinel starts all of them and waits until they know each other.
func StartRedisSentinel(t testing.TB, settings ...string) *RedisSentinel {
	t.Helper()
	settings = append([]string{"repl-diskless-sync-delay 0"}, settings...)
	s := &RedisSentinel{Master: StartRedis(t, settings...)}
	s.Replica = StartReplica(t, s.Master, settings...)
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(t, s.Master.Port))
	}
	for _, r := range s.Sentinels {
		client := r.Client()
		Eventually(t, "the Sentinels know each other", func() bool { return informed(client) })
		_ = client.Close()
	}
	return s
}

func startSentinel(t testing.TB, master int) *Redis {
	t.Helper()
	r := newRedis(t)
	r.kind = []string{"--sentinel"}
	r.configure([]string{
		"bind 127.0.0.1", fmt.Sprint("port ", r.Port), "dir " + r.dir, "protected-mode no", "logfile " + filepath.Join(r.dir, "log"),
		fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 2", master),
		"sentinel down-after-milliseconds mymaster 1000", "sentinel failover-timeout mymaster 5000",
	})
	t.Cleanup(r.Kill)
	r.Start()
	return r
}

// informed reports whether a Sentinel has found the others and the replica.
func informed(c *redis.Client) bool {
	v, err := c.Do(context.Background(), "SENTINEL", "MASTER", "mymaster").Result()
	if err != nil {
		return false
	}
	state := map[string]string{}
	switch v := v.(type) {
	case map[any]any:
		for key, value := range v {
			state[fmt.Sprint(key)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			state[fmt.Sprint(v[i])] = fmt.Sprint(v[i+1])
		}
	}
	return state["num-slaves"] == "1" && state["num-other-sentinels"] == "2"
}

// Addrs are those of the Sentinels.
func (s *RedisSentinel) Addrs() []string {
	addrs := make([]string, len(s.Sentinels))
	for i, r := range s.Sentinels {
		addrs[i] = r.Addr()
	}
	return addrs
}
