package proc

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestCPUClockAdvancesWithWork(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = 20 * time.Millisecond
	sum := 0
	for began := time.Now(); time.Since(began) < work; {
		sum++
	}
	after, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("got %v of CPU time after %d rounds of work, want more than %v", after, sum, before)
	}
}

func TestCPUClockAgreesWithGetrusage(t *testing.T) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	low := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	got, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The two are accounted at different moments of a tick.
	if got < low-10*time.Millisecond {
		t.Errorf("got %v, want at least the %v of getrusage", got, low)
	}
}

func TestMemoryIsThatOfTheProcess(t *testing.T) {
	const size = 64 << 20
	before, err := RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Fresh pages, which the heap of an earlier run would not give.
	block, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(block) }()
	for i := 0; i < size; i += os.Getpagesize() {
		block[i] = 1
	}
	after, err := RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown < size/2 {
		t.Errorf("got %d more bytes after touching %d, want about as many", grown, size)
	}
}

func TestAbsentProcessIsAnError(t *testing.T) {
	const nobody = 1<<22 + 1 // above the largest pid of Linux
	if d, err := CPU(nobody); err == nil {
		t.Errorf("got %v of CPU time, want an error", d)
	}
	if n, err := RSS(nobody); err == nil {
		t.Errorf("got %d bytes, want an error", n)
	}
}

func TestFilesAreRaisedToTheHardLimit(t *testing.T) {
	if err := RaiseFiles(1); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur != limit.Max {
		t.Errorf("got a soft limit of %d, want the hard one, %d", limit.Cur, limit.Max)
	}
	if limit.Max == ^uint64(0) {
		return // nothing is beyond it
	}
	if err := RaiseFiles(limit.Max + 1); err == nil {
		t.Errorf("got no error beyond the hard limit of %d", limit.Max)
	}
}
