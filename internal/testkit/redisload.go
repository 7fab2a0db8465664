package testkit

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Durable are the settings of a server that keeps over a Kill all that it
// acknowledged: with "everysec" a slow disk makes it wait with its writes, too.
var Durable = []string{"appendonly yes", "appendfsync always", "aof-use-rdb-preamble yes", "rdbcompression no"}

// Ballast gives a [Durable] server what it must load first when it starts
// again.
func (r *Redis) Ballast() {
	r.t.Helper()
	r.Do("EVAL", "for i = 1, 5000 do redis.call('SET', 'ballast:' .. i, string.rep('x', 500)) end return 1", 0)
	r.Do("BGREWRITEAOF")
	r.awaits("the ballast is on the disk", func(c *redis.Client) bool {
		info, err := c.Info(context.Background(), "persistence").Result()
		return err == nil && infoNumber(info, "aof_rewrite_in_progress")+infoNumber(info, "aof_rewrite_scheduled") == 0 &&
			infoNumber(info, "aof_base_size") > 5000*500
	})
}

// StartLoading starts a server that was killed, with its [Redis.Ballast], and
// returns when it says that it loads its data. It does until [Redis.Loaded],
// or for some minutes.
func (r *Redis) StartLoading() {
	r.t.Helper()
	r.launch("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
	r.answers("redis-server loads", func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "LOADING") })
}

// Loaded lets a server that loads its data end that.
func (r *Redis) Loaded() {
	r.t.Helper()
	r.Do("CONFIG", "SET", "key-load-delay", 0)
	r.answers("redis-server has loaded", func(err error) bool { return err == nil })
}
