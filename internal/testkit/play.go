package testkit

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// player runs one script against one request.
type player struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	ctx   context.Context //nolint:containedctx // lives as long as the request it came from
	call  *Call
	stage *Stage
	code  int
}

// play runs the script. It returns false when the peer closed before the end.
func (p *player) play(s Script) bool {
	for _, op := range s {
		if op.Do == DoEnd {
			return true
		}
		if !p.step(op) {
			return p.stoppedByCancel()
		}
	}
	return true
}

// step runs one step and reports whether the script goes on.
func (p *player) step(op Op) bool {
	switch op.Do {
	case DoStatus:
		p.code = op.Code
	case DoHeader:
		p.w.Header().Add(op.Name, op.Value)
	case DoFlushHeaders:
		p.w.WriteHeader(p.code)
		p.flush()
	case DoSend:
		p.write(op.Bytes)
		p.flush()
	case DoRepeat:
		return p.repeat(op)
	case DoWait:
		return p.sleep(op.Wait)
	case DoHang, DoAwaitClose:
		return p.hang(op)
	case DoGate:
		return p.gate(op.Gate)
	case DoOnCancel:
		p.stage.setCancel(op)
	case DoReset:
		p.reset()
	case DoCut:
		panic(http.ErrAbortHandler) // net/http then closes without the last chunk
	case DoEnd:
	}
	return p.ctx.Err() == nil
}

func (p *player) repeat(op Op) bool {
	for i := range op.Times {
		p.write(bytes.ReplaceAll(op.Bytes, []byte("{{i}}"), strconv.AppendInt(nil, int64(i+1), 10)))
		if op.Wait > 0 {
			p.flush()
		}
		if !p.sleep(op.Wait) {
			return false
		}
	}
	p.flush()
	return p.ctx.Err() == nil
}

func (p *player) write(b []byte) {
	n, err := p.w.Write(b)
	if err == nil {
		p.call.wrote(n)
	}
}

func (p *player) flush() {
	_ = p.rc.Flush() // a peer that left is noticed by the context
}

// sleep waits and reports whether the script goes on.
func (p *player) sleep(d time.Duration) bool {
	if d == 0 {
		return p.ctx.Err() == nil
	}
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// gate waits for the test.
func (p *player) gate(open <-chan struct{}) bool {
	select {
	case <-open:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// hang waits until the peer closes; with a time, at most that long.
func (p *player) hang(op Op) bool {
	if op.Do == DoAwaitClose {
		return p.sleep(op.Wait)
	}
	<-p.ctx.Done()
	return false
}

// reset closes the connection with a TCP reset. Where there is no connection
// to take over it aborts the handler, which is what a proxy makes of a reset.
func (p *player) reset() {
	conn, _, err := p.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	ResetConn(conn)
	panic(http.ErrAbortHandler)
}

// ResetConn closes a connection the hard way: its peer reads a reset, not an
// end.
func ResetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a connection that is gone already is as good
	}
	_ = conn.Close()
}

// stoppedByCancel reports whether it was an answered cancel call, not the
// peer, that ended the script: the body then ends cleanly.
func (p *player) stoppedByCancel() bool {
	return context.Cause(p.ctx) == errStopped
}
