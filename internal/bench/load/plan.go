package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Plan is one measurement.
type Plan struct {
	// Addr is host and port of what is measured.
	Addr string
	// Request is the head of each request without the blank line at its end and
	// without Host and Content-Length. "%d" stands for the number of the stream.
	Request string
	// Body is sent with each request; "%d" as above. Empty: no body.
	Body string
	// Streams is how many requests are open at once.
	Streams int
	// Settle is the time between the first frame of the last stream and the
	// window.
	Settle time.Duration
	// Window is how long is measured; 0 means to the end of the last stream.
	Window time.Duration
	// Whole opens the window with the first request, not after Settle.
	Whole bool
	// Numbered tells that each frame carries the gateway's own id, whose number
	// must be that of the frame.
	Numbered bool
	// Source is host and port of the backend, to tell it when to go and when to
	// finish. Empty: the streams end by themselves.
	Source string
	// Gateway and Backend are the processes whose CPU is counted; 0 counts none.
	Gateway, Backend int
	// Patience bounds each step: connecting, ending.
	Patience time.Duration
}

// request renders the request of one stream.
func (p *Plan) request(i int) []byte {
	number := strconv.Itoa(i)
	body := strings.ReplaceAll(p.Body, "%d", number)
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(p.Request, "%d", number))
	fmt.Fprintf(&b, "\r\nHost: %s\r\n", p.Addr)
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.WriteString(body)
	return []byte(b.String())
}

// Result is what one measurement saw. Times are nanoseconds in JSON.
type Result struct {
	// Streams ended whole: every number up to the end marker.
	Streams int
	// Frames and Elapsed are those of the window.
	Frames  int
	Elapsed time.Duration
	// Total is the number of frames before, in and after the window.
	Total int
	// Gateway, Backend and Client are the CPU time that each used in the window.
	Gateway, Backend, Client time.Duration
	// RSS is the gateway's memory before the first stream and at the end of the
	// window, in bytes.
	RSSBefore, RSSAfter int64
	// The latencies of the frames of the window, from backend to client.
	P50, P90, P99, Max time.Duration
	// FirstByte is the median time from the request to its first frame.
	FirstByte time.Duration
}

// CPUPerFrame is what the gateway spent on each frame.
func (r *Result) CPUPerFrame() time.Duration { return per(r.Gateway, r.Frames) }

// BackendPerFrame is what the backend spent on each frame.
func (r *Result) BackendPerFrame() time.Duration { return per(r.Backend, r.Frames) }

func per(d time.Duration, n int) time.Duration {
	if n == 0 {
		return 0
	}
	return d / time.Duration(n)
}

// Rate is the number of frames that arrived per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Frames) / r.Elapsed.Seconds()
}

// RSSPerStream is by how much the gateway grew for each of n streams, in bytes.
func (r *Result) RSSPerStream(n int) float64 {
	return float64(r.RSSAfter-r.RSSBefore) / float64(max(n, 1))
}

// FaultError tells what was wrong with streams.
type FaultError struct {
	// Faulty is how many of the streams had a fault, and First what was wrong
	// with one of them.
	Faulty, Streams int
	First           string
}

// Error implements error.
func (e *FaultError) Error() string {
	return fmt.Sprintf("%d of %d streams were not whole, one of them: %s", e.Faulty, e.Streams, e.First)
}

// ErrSlow means that a step took longer than the plan's patience.
var ErrSlow = errors.New("out of patience")
