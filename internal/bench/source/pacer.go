package source

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// slotWidth is how finely turns are spread over a period.
const slotWidth = 500 * time.Microsecond

// pacer gives every stream of one rate its turn once per period, spread evenly.
// Its one goroutine writes for all of them.
type pacer struct {
	period time.Duration
	wake   chan struct{} // capacity 1: a stream has joined
	done   chan struct{}
	wg     sync.WaitGroup

	mu    sync.Mutex // guards everything below
	slots [][]*pacedStream
	count int
	next  int // the slot of the next newcomer
}

// pacedStream is one connection that gets a frame per turn.
type pacedStream struct {
	conn  net.Conn
	fd    int // of conn, which stays open until the pacer closes it
	phase *phase
	seq   uint64
	rest  []byte // what the socket did not take of the last frame
	buf   []byte
}

func newPacer(rate int) *pacer {
	period := time.Second / time.Duration(rate)
	p := &pacer{
		period: period,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		slots:  make([][]*pacedStream, max(1, int(period/slotWidth))),
	}
	p.wg.Go(p.run)
	return p
}

// Close ends the pacer and every stream that it still holds.
func (p *pacer) Close() {
	close(p.done)
	p.wg.Wait()
	for _, slot := range p.slots {
		for _, s := range slot {
			s.conn.Close() // the peer sees a broken body, which is what it is
		}
	}
}

// join hands a connection, whose response headers are written, to the pacer.
func (p *pacer) join(conn net.Conn, fd int, ph *phase) {
	s := &pacedStream{conn: conn, fd: fd, phase: ph, buf: make([]byte, 0, 2*FrameSize)}
	p.mu.Lock()
	p.slots[p.next] = append(p.slots[p.next], s)
	// A stride without a common divisor visits all slots and puts neighbours in
	// time far apart.
	p.next = (p.next + stride(len(p.slots))) % len(p.slots)
	p.count++
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stride returns a step near the golden section of n that visits every slot.
func stride(n int) int {
	step := max(1, n*618/1000)
	for gcd(step, n) != 1 {
		step++
	}
	return step
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (p *pacer) run() {
	at := time.Now()
	for turn := 0; ; turn = (turn + 1) % len(p.slots) {
		if p.idle() {
			select {
			case <-p.done:
				return
			case <-p.wake:
				at = time.Now()
			}
		}
		select {
		case <-p.done:
			return
		default:
		}
		p.serve(turn)
		at = at.Add(slotWidth)
		if late := time.Since(at); late > p.period {
			at = at.Add(late) // promise 2: drop the turns that were missed
		}
		sleepUntil(at)
	}
}

func (p *pacer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count == 0
}

// serve gives each stream of one slot its turn and forgets those that ended.
func (p *pacer) serve(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.slots[slot][:0]
	for _, s := range p.slots[slot] {
		if s.turn() {
			kept = append(kept, s)
		}
	}
	p.count -= len(p.slots[slot]) - len(kept)
	clear(p.slots[slot][len(kept):])
	p.slots[slot] = kept
}

// turn writes one frame and reports whether the stream goes on.
func (s *pacedStream) turn() bool {
	if len(s.rest) > 0 {
		s.rest = s.write(s.rest)
		return s.rest != nil
	}
	if s.phase.finished() {
		_, _ = s.conn.Write(finalChunk) // a peer that left needs no end
		s.conn.Close()
		return false
	}
	s.seq++
	s.buf = appendFrameChunk(s.buf[:0], s.seq, time.Now().UnixNano())
	s.rest = s.write(s.buf)
	return s.rest != nil
}

// write hands b to the socket without ever waiting for it. It returns what is
// left, which is not nil, or nil when the peer has gone.
func (s *pacedStream) write(b []byte) []byte {
	n, err := syscall.Write(s.fd, b)
	switch err {
	case nil:
		return b[n:]
	case syscall.EAGAIN, syscall.EINTR:
		return b
	default:
		s.conn.Close() // it is broken already
		return nil
	}
}
