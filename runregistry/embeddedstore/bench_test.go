package embeddedstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/embeddedstore"
)

var benchSubject = runregistry.Subject{Realm: "bench", Sub: "s"}

func benchAdmission(l runregistry.LogLimits) *runregistry.Admission {
	return &runregistry.Admission{
		Run:          runregistry.NewRunID(0),
		Subject:      benchSubject,
		Scope:        runregistry.SubjectScope(benchSubject),
		Conversation: runregistry.NewConversationID(),
		Retention:    runregistry.Retention{Frames: time.Hour, Record: time.Hour},
		Limits:       l,
	}
}

// running starts a run for a benchmark or a test of allocations.
func running(tb testing.TB, s *embeddedstore.Store, l runregistry.LogLimits) runregistry.Lease {
	tb.Helper()
	d, err := s.Admit(context.Background(), benchAdmission(l))
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(context.Background(), d.Lease)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return d.Lease
}

// BenchmarkAppend stores one frame of 120 bytes per operation in a run whose
// log is bounded as by default. The watchers do not run: what remains is the
// price of telling them. With "awake" each takes its hint.
func BenchmarkAppend(b *testing.B) {
	for _, bb := range []struct {
		watchers int
		awake    bool
	}{{0, false}, {1, false}, {1, true}, {1000, false}, {1000, true}} {
		b.Run(fmt.Sprintf("watchers=%d/awake=%v", bb.watchers, bb.awake), func(b *testing.B) {
			benchmarkAppend(b, bb.watchers, bb.awake)
		})
	}
}

func benchmarkAppend(b *testing.B, watchers int, awake bool) {
	b.Helper()
	s := embeddedstore.New(embeddedstore.Options{})
	defer s.Close()
	ctx := b.Context()
	l := running(b, s, runregistry.LogLimits{Bytes: 64 << 20, Frames: 1_000_000})
	watches := make([]*runregistry.Watch, watchers)
	for i := range watches {
		watches[i], _ = s.Watch(ctx, l.Run, true)
		defer watches[i].Close()
	}
	batch := &runregistry.Batch{Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}
	b.ReportAllocs()
	for b.Loop() {
		done, err := s.Append(ctx, l, batch)
		if err != nil {
			b.Fatal(err)
		}
		batch.After = done.Last
		for i := 0; awake && i < len(watches); i++ {
			<-watches[i].C
		}
	}
}

// BenchmarkDurableAppend is BenchmarkAppend in a store with a directory: the
// difference is the price of surviving the process. With "beside" another
// goroutine starts and ends runs all the time, which syncs the disk.
func BenchmarkDurableAppend(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(fmt.Sprintf("beside=%v", beside), func(b *testing.B) { benchmarkDurableAppend(b, beside) })
	}
}

func benchmarkDurableAppend(b *testing.B, beside bool) {
	b.Helper()
	s := embeddedstore.New(embeddedstore.Options{Path: b.TempDir()})
	defer s.Close()
	l := running(b, s, runregistry.LogLimits{Bytes: 64 << 20, Frames: 1_000_000})
	ctx, cancel := context.WithCancel(b.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	if beside {
		others.Go(func() {
			for ctx.Err() == nil {
				finishRun(b, s)
			}
		})
	}
	batch := &runregistry.Batch{Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}
	b.ReportAllocs()
	for b.Loop() {
		done, err := s.Append(ctx, l, batch)
		if err != nil {
			b.Fatal(err)
		}
		batch.After = done.Last
	}
}

// BenchmarkDurableRun admits, dispatches and settles runs, in so many
// goroutines: each run waits for three syncs.
func BenchmarkDurableRun(b *testing.B) {
	for _, parallel := range []int{1, 64} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			s := embeddedstore.New(embeddedstore.Options{Path: b.TempDir()})
			defer s.Close()
			b.SetParallelism(parallel)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					finishRun(b, s)
				}
			})
		})
	}
}

// finishRun runs a run without frames.
func finishRun(b *testing.B, s *embeddedstore.Store) {
	b.Helper()
	d, err := s.Admit(context.Background(), benchAdmission(runregistry.LogLimits{}))
	if err == nil {
		d.Watch.Close()
		_, err = s.Intend(context.Background(), d.Lease)
	}
	if err == nil {
		_, err = s.Settle(context.Background(), d.Lease, &runregistry.Settlement{State: runregistry.Completed, Keep: time.Second})
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkOpen opens a directory with 2,000 runs of 50 frames, as a restart
// does, and waits until it can be used.
func BenchmarkOpen(b *testing.B) {
	o := embeddedstore.Options{Path: b.TempDir()}
	s := embeddedstore.New(o)
	batch := &runregistry.Batch{}
	for range 50 {
		batch.Frames = append(batch.Frames, bytes.Repeat([]byte("x"), 120))
	}
	var last runregistry.RunID
	for range 2000 {
		l := running(b, s, runregistry.LogLimits{})
		_, stored := s.Append(b.Context(), l, batch)
		_, settled := s.Settle(b.Context(), l, &runregistry.Settlement{State: runregistry.Completed})
		if err := errors.Join(stored, settled); err != nil {
			b.Fatal(err)
		}
		last = l.Run
	}
	s.Close()
	for b.Loop() {
		s := embeddedstore.New(o)
		if _, err := s.Load(b.Context(), last); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

// BenchmarkAppendBatch stores 32 frames per operation, as after one read of a
// fast upstream.
func BenchmarkAppendBatch(b *testing.B) {
	s := embeddedstore.New(embeddedstore.Options{})
	defer s.Close()
	l := running(b, s, runregistry.LogLimits{Bytes: 64 << 20})
	batch := &runregistry.Batch{}
	for range 32 {
		batch.Frames = append(batch.Frames, bytes.Repeat([]byte("x"), 120))
	}
	b.ReportAllocs()
	for b.Loop() {
		done, err := s.Append(b.Context(), l, batch)
		if err != nil {
			b.Fatal(err)
		}
		batch.After = done.Last
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Frames)), "ns/frame")
}

// BenchmarkReplay reads a log of 10,000 frames of 120 bytes page by page.
func BenchmarkReplay(b *testing.B) {
	const frames = 10_000
	s := embeddedstore.New(embeddedstore.Options{})
	defer s.Close()
	l := running(b, s, runregistry.LogLimits{})
	for i := range runregistry.Seq(frames) {
		if _, err := s.Append(b.Context(), l, &runregistry.Batch{After: i, Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}); err != nil {
			b.Fatal(err)
		}
	}
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
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "ns/frame")
}

// BenchmarkTail appends one frame and reads it, as one live reader does.
func BenchmarkTail(b *testing.B) {
	s := embeddedstore.New(embeddedstore.Options{})
	defer s.Close()
	l := running(b, s, runregistry.LogLimits{Bytes: 64 << 20})
	batch := &runregistry.Batch{Frames: [][]byte{bytes.Repeat([]byte("x"), 120)}}
	q := runregistry.PageQuery{Run: l.Run}
	b.ReportAllocs()
	for b.Loop() {
		done, err := s.Append(b.Context(), l, batch)
		if err != nil {
			b.Fatal(err)
		}
		batch.After = done.Last
		p, err := s.Read(b.Context(), q)
		if err != nil || len(p.Frames) != 1 {
			b.Fatal(err)
		}
		q.After, q.Into = done.Last, p.Frames
	}
}

// BenchmarkRun admits, dispatches and settles a run without frames.
func BenchmarkRun(b *testing.B) {
	s := embeddedstore.New(embeddedstore.Options{Memory: 1 << 50})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		l := running(b, s, runregistry.LogLimits{})
		end := &runregistry.Settlement{State: runregistry.Completed, Keep: 100 * time.Millisecond}
		if _, err := s.Settle(b.Context(), l, end); err != nil {
			b.Fatal(err)
		}
	}
}
