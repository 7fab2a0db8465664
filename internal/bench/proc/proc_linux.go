package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// cpuClockSched is CPUCLOCK_SCHED of the kernel: user and system time together,
// as the scheduler counted them.
const cpuClockSched = 2

// CPU returns the CPU time that the process has used since it started.
func CPU(pid int) (time.Duration, error) {
	// The layout that clock_getcpuclockid(3) documents for the clock of another
	// process: the complement of the pid above three bits of clock kind.
	clock := uintptr((^pid)<<3 | cpuClockSched)
	var spent syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&spent)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("reading CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(spent.Nano()), nil
}

// RSS returns the resident memory of the process in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("reading memory of process %d: %w", pid, err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("reading memory of process %d: got %q, want at least two fields", pid, text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading memory of process %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// RaiseFiles lifts the limit of open files of this process, and of those that
// it starts, to what the system allows. It fails when that is less than need.
func RaiseFiles(need uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	if limit.Max < need {
		return fmt.Errorf("the system allows %d open files, the load needs %d: raise the hard limit (ulimit -Hn)", limit.Max, need)
	}
	limit.Cur = limit.Max
	// An explicit call also keeps os/exec from handing the old soft limit to
	// children.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}

// LoadAverage returns the load of the machine over the last minute, as text
// for a report.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	return string(first)
}
