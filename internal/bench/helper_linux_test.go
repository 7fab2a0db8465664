package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/bench/load"
)

// startSource runs the backend's role on pipes and returns its address.
func startSource(t *testing.T) string {
	t.Helper()
	stdin, closeStdin := io.Pipe()
	stdout, printed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serveSource(t.Context(), stdin, printed) }()
	t.Cleanup(func() {
		closeStdin.Close()
		if err := <-done; err != nil {
			t.Errorf("backend: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// measure runs the client's role.
func measure(t *testing.T, plan load.Plan) outcome {
	t.Helper()
	var stdin, stdout bytes.Buffer
	if err := json.NewEncoder(&stdin).Encode(plan); err != nil {
		t.Fatal(err)
	}
	if err := runLoad(t.Context(), &stdin, &stdout); err != nil {
		t.Fatal(err)
	}
	var out outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBackendAndClientSpeakThroughPipes(t *testing.T) {
	addr := startSource(t)
	plan := scenario{streams: 5, frames: 100}.plan()
	plan.Addr, plan.Source = addr, addr
	out := measure(t, plan)
	if out.Fault != "" || out.Result.Streams != 5 || out.Result.Total != 500 {
		t.Errorf("got %d streams, %d frames, fault %q, want 5 and 500", out.Result.Streams, out.Result.Total, out.Fault)
	}
}

func TestFaultsTravelToTheHarness(t *testing.T) {
	addr := startSource(t)
	plan := scenario{streams: 5, frames: 100}.plan()
	plan.Addr, plan.Source, plan.Numbered = addr, addr, true
	if out := measure(t, plan); !strings.Contains(out.Fault, "5 of 5 streams") {
		t.Errorf("got fault %q, want one that counts the streams", out.Fault)
	}
}

func TestOutputOfAChildIsKeptAtItsEnd(t *testing.T) {
	var b tailBuffer
	for range 100 {
		if _, err := b.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Write([]byte("the reason")); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); len(got) != tailSize || !strings.HasSuffix(got, "the reason") {
		t.Errorf("got %d bytes ending in %q, want the last %d", len(got), got[max(0, len(got)-12):], tailSize)
	}
}

func TestChildThatFailsSaysWhy(t *testing.T) {
	c, err := start(t.Context(), nil, "", "go", "no-such-command")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.wait(); err == nil || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("got error %v, want what the program printed", err)
	}
}

func TestStopEndsAChildThatWaits(t *testing.T) {
	c, err := start(t.Context(), nil, "", "cat")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.stop()
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("got an end after %v, want it at once", took)
	}
}
