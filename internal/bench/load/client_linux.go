package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/proc"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/source"
)

// connectBatch is how many connections are opened between two looks at those
// that are open.
const connectBatch = 10

// client reads all streams of a plan on the calling goroutine.
type client struct {
	plan    Plan
	addr    netip.AddrPort
	epoll   int
	events  []syscall.EpollEvent
	buf     []byte
	streams []*stream

	started, open int // streams that had a frame; that have not ended
	total         int
	counting      bool // the window is open
	latencies     []time.Duration
}

// Run carries the plan out. A [*FaultError] comes together with the result.
func Run(ctx context.Context, plan Plan) (Result, error) {
	addr, err := netip.ParseAddrPort(plan.Addr)
	if err != nil {
		return Result{}, fmt.Errorf("reading address of the gateway: %w", err)
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return Result{}, fmt.Errorf("creating epoll instance: %w", err)
	}
	c := &client{plan: plan, addr: addr, epoll: epoll, events: make([]syscall.EpollEvent, 512), buf: make([]byte, 256<<10)}
	defer c.close()
	return c.run(ctx)
}

func (c *client) close() {
	for _, s := range c.streams {
		s.hangUp()
	}
	syscall.Close(c.epoll) // nothing is left to lose
}

func (c *client) run(ctx context.Context) (Result, error) {
	var res Result
	var err error
	if res.RSSBefore, err = c.rss(); err != nil {
		return res, err
	}
	if err := c.readAll(ctx, &res); err != nil {
		return res, err
	}
	if err := c.finish(ctx); err != nil {
		return res, err
	}
	return res, c.judge(&res)
}

// readAll connects, settles and measures, or measures all of it.
func (c *client) readAll(ctx context.Context, res *Result) error {
	if c.plan.Whole {
		return c.measure(res, func() error { return errors.Join(c.connect(ctx), c.watch(ctx)) })
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := c.until(ctx, c.plan.Settle, c.allEnded); err != nil {
		return err
	}
	return c.measure(res, func() error { return c.watch(ctx) })
}

// allEnded reports whether no stream is open any more.
func (c *client) allEnded() bool { return c.open == 0 }

// connect opens every stream and waits until each has had its first frame.
func (c *client) connect(ctx context.Context) error {
	for i := range c.plan.Streams {
		if err := c.dial(i); err != nil {
			return fmt.Errorf("opening stream %d: %w", i, err)
		}
		if i%connectBatch == 0 {
			if err := c.poll(0); err != nil {
				return err
			}
		}
	}
	ready := func() bool { return c.started == len(c.streams) || c.open == 0 }
	if err := c.until(ctx, c.plan.Patience, ready); err != nil {
		return err
	}
	if !ready() {
		return fmt.Errorf("waiting for the first frames: got %d of %d streams: %w", c.started, len(c.streams), ErrSlow)
	}
	return nil
}

// dial opens one connection outside of the runtime's own poller, which would
// otherwise wake up for every frame as well.
func (c *client) dial(i int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("creating socket: %w", err)
	}
	s := &stream{fd: fd, numbered: c.plan.Numbered, asked: time.Now()}
	c.streams = append(c.streams, s)
	c.open++
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(c.addr.Port()), Addr: c.addr.Addr().As4()}); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	if _, err := syscall.Write(fd, c.plan.request(i)); err != nil {
		return fmt.Errorf("sending request: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("making socket non-blocking: %w", err)
	}
	// The event carries the number of the stream in place of its descriptor.
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
	if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("watching socket: %w", err)
	}
	return nil
}

// until reads until stop says so or d is over.
func (c *client) until(ctx context.Context, d time.Duration, stop func() bool) error {
	for end := time.Now().Add(d); !stop(); {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading streams: %w", err)
		}
		if err := c.poll(min(left, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// poll reads once from every stream that has something, waiting at most wait.
func (c *client) poll(wait time.Duration) error {
	n, err := syscall.EpollWait(c.epoll, c.events, int((wait+time.Millisecond-1)/time.Millisecond))
	if err != nil && err != syscall.EINTR {
		return fmt.Errorf("waiting for streams: %w", err)
	}
	for i := range max(n, 0) {
		c.read(c.streams[c.events[i].Fd])
	}
	return nil
}

func (c *client) read(s *stream) {
	n, err := syscall.Read(s.fd, c.buf)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return
	case err != nil:
		s.fail("reading after frame %d: %v", s.last, err)
	case n == 0:
		s.closed()
	default:
		fresh := s.last == 0
		s.feed(c.buf[:n], time.Now(), c.arrived)
		if fresh && s.last > 0 {
			c.started++
		}
	}
	if s.ended {
		s.hangUp()
		c.open--
	}
}

func (c *client) arrived(latency time.Duration) {
	c.total++
	if c.counting {
		c.latencies = append(c.latencies, latency)
	}
}

func (s *stream) hangUp() {
	if s.fd >= 0 {
		syscall.Close(s.fd) // nothing is left to lose
		s.fd = -1
	}
}

// watch reads through the window.
func (c *client) watch(ctx context.Context) error {
	if c.plan.Window > 0 {
		return c.until(ctx, c.plan.Window, c.allEnded)
	}
	if err := c.tell(ctx, source.Go); err != nil {
		return err
	}
	return c.until(ctx, c.plan.Patience, c.allEnded)
}

// measure opens the window, reads, and closes it.
func (c *client) measure(res *Result, read func() error) error {
	before, err := c.clocks()
	if err != nil {
		return err
	}
	began := time.Now()
	c.counting = true
	err = read()
	c.counting = false
	if err != nil {
		return err
	}
	res.Elapsed = time.Since(began)
	after, err := c.clocks()
	if err != nil {
		return err
	}
	res.Frames = len(c.latencies)
	res.Gateway, res.Backend, res.Client = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	res.RSSAfter, err = c.rss()
	return err
}

// clocks reads the CPU clocks of gateway, backend and client.
func (c *client) clocks() (spent [3]time.Duration, err error) {
	for i, pid := range []int{c.plan.Gateway, c.plan.Backend, os.Getpid()} {
		if pid == 0 {
			continue
		}
		if spent[i], err = proc.CPU(pid); err != nil {
			return spent, err
		}
	}
	return spent, nil
}

func (c *client) rss() (int64, error) {
	if c.plan.Gateway == 0 {
		return 0, nil
	}
	return proc.RSS(c.plan.Gateway)
}

// finish asks the backend to end its streams and reads them to their ends.
func (c *client) finish(ctx context.Context) error {
	if err := c.tell(ctx, source.Finish); err != nil {
		return err
	}
	if err := c.until(ctx, c.plan.Patience, c.allEnded); err != nil {
		return err
	}
	if c.open > 0 {
		return fmt.Errorf("waiting for the ends: %d of %d streams are open: %w", c.open, len(c.streams), ErrSlow)
	}
	return nil
}

func (c *client) tell(ctx context.Context, path string) error {
	if c.plan.Source == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.plan.Source+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("telling the backend: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("telling the backend: %w", err)
	}
	return resp.Body.Close()
}

// judge fills in what is known at the end, and tells what was wrong.
func (c *client) judge(res *Result) error {
	res.Total = c.total
	slices.Sort(c.latencies)
	res.P50, res.P90 = quantile(c.latencies, 0.50), quantile(c.latencies, 0.90)
	res.P99, res.Max = quantile(c.latencies, 0.99), quantile(c.latencies, 1)
	firsts := make([]time.Duration, 0, len(c.streams))
	var faults FaultError
	for _, s := range c.streams {
		firsts = append(firsts, s.first)
		if s.whole() {
			res.Streams++
			continue
		}
		if faults.Faulty++; faults.First == "" {
			faults.First = s.fault
		}
	}
	slices.Sort(firsts)
	res.FirstByte = quantile(firsts, 0.50)
	if faults.Faulty > 0 {
		faults.Streams = len(c.streams)
		return &faults
	}
	return nil
}
