package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Paths of a [Server]. Generations are POSTed to Generate with ?rate= (frames
// per second, until Finish) or ?frames= (a burst of so many, from Go on); the
// others are for the one who measures.
const (
	Generate = "/v1/chat/completions"
	Go       = "/control/go"
	Finish   = "/control/finish"
	Calls    = "/control/calls"
)

// Server is a running backend.
type Server struct {
	listener net.Listener
	http     http.Server
	served   sync.WaitGroup

	mu     sync.Mutex // guards everything below
	phase  *phase
	pacers map[int]*pacer
	calls  int
}

// phase is one measurement: bursts begin when it goes, paced streams end when
// it has finished.
type phase struct {
	goes, ends       chan struct{}
	goOnce, endsOnce sync.Once
}

func newPhase() *phase {
	return &phase{goes: make(chan struct{}), ends: make(chan struct{})}
}

func (p *phase) begin() { p.goOnce.Do(func() { close(p.goes) }) }

func (p *phase) end() {
	p.begin()
	p.endsOnce.Do(func() { close(p.ends) })
}

func (p *phase) finished() bool {
	select {
	case <-p.ends:
		return true
	default:
		return false
	}
}

// Listen starts a backend on a free port of the loopback interface.
func Listen(ctx context.Context) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the backend: %w", err)
	}
	s := &Server{listener: listener, phase: newPhase(), pacers: map[int]*pacer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Generate, s.generate)
	mux.HandleFunc("POST "+Go, s.begin)
	mux.HandleFunc("POST "+Finish, s.finish)
	mux.HandleFunc("GET "+Calls, s.countCalls)
	s.http.Handler = mux
	s.http.ReadHeaderTimeout = 10 * time.Second
	s.served.Go(func() { _ = s.http.Serve(listener) }) // it ends by Close only
	return s, nil
}

// Addr is host and port of the backend.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server and its streams.
func (s *Server) Close() error {
	err := s.http.Close()
	s.served.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase.end()
	for _, p := range s.pacers {
		p.Close()
	}
	return err
}

func (s *Server) begin(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase.begin()
}

func (s *Server) finish(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase.end()
	s.phase = newPhase()
}

func (s *Server) countCalls(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(w, s.calls) // the asker has gone
}

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	rate, _ := strconv.Atoi(r.URL.Query().Get("rate")) // 0 is told below
	frames, _ := strconv.Atoi(r.URL.Query().Get("frames"))
	if (rate > 0) == (frames > 0) || rate > 1000 {
		http.Error(w, "give either rate, up to 1000, or frames", http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // a broken request breaks below
	conn, fd, err := takeOver(w)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ph, p := s.admit(rate) // before the head, by which a client knows that it counts
	if _, err := conn.Write(head); err != nil {
		conn.Close() // it is broken already
		return
	}
	if p != nil {
		p.join(conn, fd, ph)
		return
	}
	sendBurst(conn, ph, frames)
	conn.Close() // everything was sent
}

// admit counts a generation and returns its phase and, for a paced one, its
// pacer.
func (s *Server) admit(rate int) (*phase, *pacer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if rate == 0 {
		return s.phase, nil
	}
	p := s.pacers[rate]
	if p == nil {
		p = newPacer(rate)
		s.pacers[rate] = p
	}
	return s.phase, p
}

// takeOver takes the connection from net/http, whose writers would cost more
// than what is measured.
func takeOver(w http.ResponseWriter) (net.Conn, int, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, 0, fmt.Errorf("taking over the connection: %w", err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, 0, errors.Join(fmt.Errorf("taking over the connection: got %T, want TCP", conn), conn.Close())
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	var fd int
	if err := raw.Control(func(f uintptr) { fd = int(f) }); err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	return conn, fd, nil
}

// sendBurst sends one frame at once, so that the reader knows it is connected,
// and the others when the phase goes.
func sendBurst(conn net.Conn, ph *phase, frames int) {
	var buf []byte
	for seq := uint64(1); seq <= uint64(frames); {
		n := min(uint64(frames)-seq+1, BurstFrames)
		if seq == 1 {
			n = 1
		}
		buf = buf[:0]
		now := time.Now().UnixNano()
		for range n {
			buf = appendFrameChunk(buf, seq, now)
			seq++
		}
		if _, err := conn.Write(buf); err != nil {
			return
		}
		if seq == 2 {
			<-ph.goes
		}
	}
	_, _ = conn.Write(finalChunk) // a peer that left needs no end
}

var (
	head       = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
	finalChunk = append(append(appendChunkHead(nil, len(EndMarker)), EndMarker...), "\r\n0\r\n\r\n"...)
)

// appendFrameChunk appends a frame as a chunk of its own, as a server that
// flushes each frame sends it.
func appendFrameChunk(dst []byte, seq uint64, at int64) []byte {
	dst = appendChunkHead(dst, FrameSize)
	dst = AppendFrame(dst, seq, at)
	return append(dst, "\r\n"...)
}

// appendChunkHead opens a chunk of n bytes (RFC 9112, section 7.1).
func appendChunkHead(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 16), "\r\n"...)
}
