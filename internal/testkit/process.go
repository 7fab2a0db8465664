package testkit

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is what a process holds at one moment.
type Usage struct {
	Goroutines int
	Files      int   // open files and sockets
	Resident   int64 // bytes in memory
}

// Usage measures the process.
func (g *Gateway) Usage(t testing.TB) Usage {
	t.Helper()
	profile, err := g.Admin("/debug/pprof/goroutine?debug=1", http.Header{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var u Usage
	if _, err := fmt.Sscanf(string(profile), "goroutine profile: total %d", &u.Goroutines); err != nil {
		t.Fatalf("reading goroutine profile: %v", err)
	}
	proc := filepath.Join("/proc", strconv.Itoa(g.PID()))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	u.Files = len(files)
	u.Resident = g.Resident(t)
	return u
}

// Resident is the memory of the process, in bytes.
func (g *Gateway) Resident(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.PID()), "statm"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// Eventually asks again and again until ok says yes, and fails the test when
// it never does. It is for conditions that announce themselves to nobody.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.After(Patience)
	for !ok() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s did not come to be within %v", what, Patience)
		}
	}
}
