package redisstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// listener hears one channel. Its methods must not block.
type listener interface {
	message(text string)
	// gap says that messages may have been missed.
	gap()
}

// Subscriptions are checked after silence, and opened again after trouble.
const (
	silence  = 10 * time.Second
	firstTry = 20 * time.Millisecond
	lastTry  = time.Second
)

// subscriptions hear channels over as few connections as possible: one, or in a
// Cluster one per partition, since all channels of a connection must be in one
// slot.
type subscriptions struct {
	client  redis.UniversalClient
	sharded bool

	mu      sync.Mutex // guards everything below
	lanes   map[int]*earshot
	closed  bool
	working sync.WaitGroup
}

func newSubscriptions(client redis.UniversalClient, sharded bool) *subscriptions {
	return &subscriptions{client: client, sharded: sharded, lanes: make(map[int]*earshot)}
}

// ownersLane is the connection for the channels of instances, which are in no
// partition.
const ownersLane = -1

// lane is the connection that hears a run.
func lane(id runregistry.RunID, sharded bool) int {
	if sharded {
		return int(id.Partition())
	}
	return 0
}

// subscribe returns when the server has confirmed that the channel is heard.
// leave ends that; it takes a round trip at most.
func (s *subscriptions) subscribe(ctx context.Context, lane int, channel string, l listener) (leave func(), err error) {
	e, err := s.open(lane)
	if err != nil {
		return nil, err
	}
	sub := e.add(ctx, channel, l)
	leave = func() { e.remove(channel, l) }
	select {
	case <-sub.heard:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	case <-e.done:
		return nil, errClosed
	}
}

func (s *subscriptions) open(lane int) (*earshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	e := s.lanes[lane]
	if e == nil {
		e = &earshot{
			client: s.client, sharded: s.sharded && lane != ownersLane,
			channels: make(map[string]*channel), done: make(chan struct{}),
		}
		e.reopenLocked()
		s.lanes[lane] = e
		s.working.Go(e.hear)
	}
	return e, nil
}

func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	for _, e := range s.lanes {
		e.close()
	}
	s.mu.Unlock()
	s.working.Wait()
}

// earshot is one connection and what is heard on it.
type earshot struct {
	client  redis.UniversalClient
	sharded bool
	done    chan struct{}

	mu       sync.Mutex // guards everything below
	sub      *redis.PubSub
	channels map[string]*channel
}

// channel is one that somebody listens to.
type channel struct {
	listeners []listener
	heard     chan struct{} // closed by the first confirmation
}

// add listens to a channel.
func (e *earshot) add(ctx context.Context, name string, l listener) *channel {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.channels[name]
	if c == nil {
		c = &channel{heard: make(chan struct{})}
		e.channels[name] = c
		e.send(ctx, name, true)
	}
	c.listeners = append(c.listeners, l)
	return c
}

// remove stops one listener, and after the last the channel.
func (e *earshot) remove(name string, l listener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.channels[name]
	if c == nil {
		return
	}
	for i := range c.listeners {
		if c.listeners[i] == l {
			c.listeners = append(c.listeners[:i], c.listeners[i+1:]...)
			break
		}
	}
	if len(c.listeners) == 0 {
		delete(e.channels, name)
		ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
		defer cancel()
		e.send(ctx, name, false)
	}
}

// send changes the subscription. A failure closes the connection, and the
// client subscribes again to everything with the next one.
func (e *earshot) send(ctx context.Context, name string, on bool) {
	do := e.sub.Subscribe
	switch {
	case on && e.sharded:
		do = e.sub.SSubscribe
	case !on && e.sharded:
		do = e.sub.SUnsubscribe
	case !on:
		do = e.sub.Unsubscribe
	}
	_ = do(ctx, name)
}

// reopenLocked begins with a new connection.
func (e *earshot) reopenLocked() {
	if e.sub != nil {
		_ = e.sub.Close()
	}
	names := slices.Collect(maps.Keys(e.channels))
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	if e.sharded {
		e.sub = e.client.SSubscribe(ctx, names...)
	} else {
		e.sub = e.client.Subscribe(ctx, names...)
	}
}

func (e *earshot) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.done)
	_ = e.sub.Close()
}

// hear takes messages until the store closes.
func (e *earshot) hear() {
	quiet, wait := false, firstTry
	for {
		e.mu.Lock()
		sub := e.sub
		e.mu.Unlock()
		msg, err := sub.ReceiveTimeout(context.Background(), silence)
		switch {
		case err == nil:
			quiet, wait = false, firstTry
			e.take(msg)
			continue
		case e.closed():
			return
		case timeout(err) && !quiet:
			quiet = true // no answer to this, and the connection is dead
			ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
			err = sub.Ping(ctx)
			cancel()
			if err == nil {
				continue
			}
		}
		if !e.pause(wait) {
			return
		}
		quiet, wait = false, min(2*wait, lastTry)
	}
}

// pause waits before the next try and reports whether there is one.
func (e *earshot) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-e.done:
		return false
	case <-t.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed() {
		return false
	}
	e.reopenLocked()
	return true
}

func (e *earshot) closed() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func timeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func (e *earshot) take(msg any) {
	switch m := msg.(type) {
	case *redis.Message:
		for _, l := range e.listeners(m.Channel) {
			l.message(m.Payload)
		}
	case *redis.Subscription:
		if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
			e.confirm(m.Channel)
		}
	}
}

func (e *earshot) listeners(name string) []listener {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.channels[name]; c != nil {
		return append([]listener(nil), c.listeners...)
	}
	return nil
}

// confirm notes that a channel is heard. Every confirmation but the first comes
// after a connection that was lost.
func (e *earshot) confirm(name string) {
	e.mu.Lock()
	c := e.channels[name]
	if c == nil {
		e.mu.Unlock()
		return
	}
	first := !isClosed(c.heard)
	if first {
		close(c.heard)
	}
	e.mu.Unlock()
	if first {
		return
	}
	for _, l := range e.listeners(name) {
		l.gap()
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
