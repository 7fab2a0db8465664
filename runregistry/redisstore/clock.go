package redisstore

import (
	"sync/atomic"
	"time"
)

// clock is the server's clock as seen from here. Decisions about leases are
// made in scripts; this one is for the times of records.
type clock struct {
	known  atomic.Bool
	offset atomic.Int64 // what the server is ahead, in nanoseconds
}

// slowReply is a round trip that says too little about the server's time.
const slowReply = 100 * time.Millisecond

// observe learns from a reply that carries the server's time.
func (c *clock) observe(sent time.Time, micros int64) {
	trip := time.Since(sent)
	if micros == 0 || trip > slowReply && c.known.Load() {
		return
	}
	c.offset.Store(int64(time.UnixMicro(micros).Sub(sent.Add(trip / 2))))
	c.known.Store(true)
}

// now is the server's time, to the millisecond.
func (c *clock) now() time.Time {
	return time.UnixMilli(time.Now().Add(time.Duration(c.offset.Load())).UnixMilli()).UTC()
}
