package testkit

import "sync/atomic"

// turns hands out servers one after the other.
type turns struct {
	bases []string
	next  atomic.Uint32
}

// Over returns a client whose requests go to several servers in turn, as
// behind a load balancer that knows nothing of runs. The first goes to c's own.
func (c Client) Over(bases ...string) Client {
	c.turns = &turns{bases: append([]string{c.Base}, bases...)}
	return c
}

// base is where the next request goes.
func (c Client) base() string {
	if c.turns == nil {
		return c.Base
	}
	n := c.turns.next.Add(1) - 1
	return c.turns.bases[int(n)%len(c.turns.bases)]
}
