package testkit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// player runs one script against one request.
type player struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	call  *Call
	stage *Stage
	code  int
}

// play runs the script. It returns false when the peer closed before the end.
func (p *player) play(ctx context.Context, s Script) bool {
	for _, op := range s {
		if op.Do == DoEnd {
			return true
		}
		if !p.step(ctx, op) {
			return stoppedByCancel(ctx)
		}
	}
	return true
}

// step runs one step and reports whether the script goes on.
func (p *player) step(ctx context.Context, op Op) bool {
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
		return p.repeat(ctx, op)
	case DoWait:
		return sleep(ctx, op.Wait)
	case DoHang, DoAwaitClose:
		return hang(ctx, op)
	case DoGate:
		return gate(ctx, op.Gate)
	case DoOnCancel:
		p.stage.setCancel(op)
	case DoReset:
		p.reset()
	case DoCut:
		panic(http.ErrAbortHandler) // net/http then closes without the last chunk
	case DoEnd:
	}
	return ctx.Err() == nil
}

func (p *player) repeat(ctx context.Context, op Op) bool {
	for i := range op.Times {
		p.write(bytes.ReplaceAll(op.Bytes, []byte("{{i}}"), strconv.AppendInt(nil, int64(i+1), 10)))
		if op.Wait > 0 {
			p.flush()
		}
		if !sleep(ctx, op.Wait) {
			return false
		}
	}
	p.flush()
	return ctx.Err() == nil
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
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// gate waits for the test.
func gate(ctx context.Context, open <-chan struct{}) bool {
	select {
	case <-open:
		return true
	case <-ctx.Done():
		return false
	}
}

// hang waits until the peer closes; with a time, at most that long.
func hang(ctx context.Context, op Op) bool {
	if op.Do == DoAwaitClose {
		return sleep(ctx, op.Wait)
	}
	<-ctx.Done()
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
func stoppedByCancel(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), errStopped)
}
