package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// benchStore is a store on a server of its own.
func benchStore(b *testing.B) (*redisstore.Store, *testkit.Redis) {
	b.Helper()
	r := testkit.StartRedis(b)
	s, err := redisstore.Open(redisstore.Options{Addrs: []string{r.Addr()}, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s, r
}

func benchRun(b *testing.B, s *redisstore.Store) runregistry.Lease {
	b.Helper()
	d, err := s.Admit(b.Context(), admission(runregistry.NewConversationID()))
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(b.Context(), d.Lease)
	}
	if err != nil {
		b.Fatal(err)
	}
	return d.Lease
}

// cpu is the processor time of this process, without the server's.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// served is the processor time of the server.
func served(b *testing.B, r *testkit.Redis) time.Duration {
	b.Helper()
	total := 0.0
	for line := range strings.Lines(info(b, r, "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}

func info(b *testing.B, r *testkit.Redis, section string) string {
	b.Helper()
	c := r.Client()
	defer func() { _ = c.Close() }()
	text, err := c.Info(b.Context(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	return text
}

var benchFrame = bytes.Repeat([]byte("x"), 120)

// BenchmarkAppend stores one frame of 120 bytes per operation: 200 runs at once,
// each of which waits for its acknowledgement before its next frame.
func BenchmarkAppend(b *testing.B) {
	const runs = 200
	s, r := benchStore(b)
	leases := make([]runregistry.Lease, runs)
	for i := range leases {
		leases[i] = benchRun(b, s)
	}
	client, server := cpu(b), served(b, r)
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i, l := range leases {
		all.Go(func() {
			batch := &runregistry.Batch{Frames: [][]byte{benchFrame}}
			for n := i; n < b.N; n += runs {
				done, err := s.Append(context.Background(), l, batch)
				if err != nil {
					b.Error(err)
					return
				}
				batch.After = done.Last
			}
		})
	}
	all.Wait()
	b.StopTimer()
	perFrame := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) }
	b.ReportMetric(perFrame(cpu(b)-client), "client-cpu-ns/frame")
	b.ReportMetric(perFrame(served(b, r)-server), "server-cpu-ns/frame")
}

// BenchmarkReplay reads a log of 10,000 frames of 120 bytes page by page, as a
// reader does that comes late.
func BenchmarkReplay(b *testing.B) {
	const frames = 10_000
	s, r := benchStore(b)
	l := benchRun(b, s)
	fill := &runregistry.Batch{}
	for range 100 {
		fill.Frames = append(fill.Frames, benchFrame)
	}
	for fill.After < frames {
		done, err := s.Append(b.Context(), l, fill)
		if err != nil {
			b.Fatal(err)
		}
		fill.After = done.Last
	}
	client, server := cpu(b), served(b, r)
	var into []runregistry.Frame
	b.ReportAllocs()
	for b.Loop() {
		q := runregistry.PageQuery{Run: l.Run, Into: into}
		for q.After < frames {
			p, err := s.Read(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			q.After, q.Into = p.Frames[len(p.Frames)-1].Seq, p.Frames
		}
		into = q.Into
	}
	perFrame := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*frames) }
	b.ReportMetric(perFrame(b.Elapsed()), "ns/frame")
	b.ReportMetric(perFrame(cpu(b)-client), "client-cpu-ns/frame")
	b.ReportMetric(perFrame(served(b, r)-server), "server-cpu-ns/frame")
}

// BenchmarkRun admits, dispatches and settles a run without frames.
func BenchmarkRun(b *testing.B) {
	s, r := benchStore(b)
	client, server := cpu(b), served(b, r)
	for b.Loop() {
		l := benchRun(b, s)
		if _, err := s.Settle(b.Context(), l, &runregistry.Settlement{State: runregistry.Completed, Keep: 100 * time.Millisecond}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-client).Microseconds())/float64(b.N), "client-cpu-us/run")
	b.ReportMetric(float64((served(b, r)-server).Microseconds())/float64(b.N), "server-cpu-us/run")
}

// BenchmarkMemory says how much memory of the server a retained run takes: 500
// runs with a key and a conversation of their own, and frames of 120 bytes.
func BenchmarkMemory(b *testing.B) {
	for _, frames := range []int{0, 10, 100, 1000} {
		b.Run(fmt.Sprint("frames=", frames), func(b *testing.B) {
			const runs = 500
			s, r := benchStore(b)
			batch := &runregistry.Batch{}
			for range frames {
				batch.Frames = append(batch.Frames, benchFrame)
			}
			retained(b, s, &runregistry.Batch{}) // scripts and buffers are there
			before := used(b, r)
			for range runs {
				retained(b, s, batch)
			}
			b.ReportMetric(float64(used(b, r)-before)/runs, "B/run")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// retained leaves an ended run behind.
func retained(b *testing.B, s *redisstore.Store, batch *runregistry.Batch) {
	b.Helper()
	a := admission(runregistry.NewConversationID())
	copy(a.Key[:], a.Run)
	a.Retention.Frames = time.Hour
	d, err := s.Admit(b.Context(), a)
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(b.Context(), d.Lease)
	}
	for from := 0; err == nil && from < len(batch.Frames); from++ {
		_, err = s.Append(b.Context(), d.Lease, &runregistry.Batch{After: runregistry.Seq(from), Frames: batch.Frames[from : from+1]})
	}
	if err == nil {
		_, err = s.Settle(b.Context(), d.Lease, &runregistry.Settlement{State: runregistry.Completed})
	}
	if err != nil {
		b.Fatal(err)
	}
}

func used(b *testing.B, r *testkit.Redis) int {
	b.Helper()
	for line := range strings.Lines(info(b, r, "memory")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("the server does not tell its memory")
	return 0
}
