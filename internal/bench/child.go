package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that the harness started and will end.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output tailBuffer
}

// start runs a program. Its stdin stays open until stop, which is how helpers
// learn that the harness has gone.
// data, if not empty, is where it keeps its files instead of the user's own
// directory.
func start(ctx context.Context, stdout io.Writer, data, program string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, program, args...)}
	if data != "" {
		c.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+data)
	}
	c.cmd.Stdout, c.cmd.Stderr = stdout, &c.output
	if stdout == nil {
		c.cmd.Stdout = &c.output
	}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 10 * time.Second
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process and waits for it.
func (c *child) stop() {
	c.stdin.Close() // it may have gone already
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(10*time.Second, func() {
		_ = c.cmd.Process.Kill()
	})
	defer killer.Stop()
	_ = c.cmd.Wait() // it was told to end
}

// wait waits for a process that ends by itself.
func (c *child) wait() error {
	if err := c.cmd.Wait(); err != nil {
		return errors.New(strings.TrimSpace(c.output.String() + "\n" + err.Error()))
	}
	return nil
}

// tailBuffer keeps the end of what a process printed.
type tailBuffer struct {
	mu sync.Mutex // guards b: os/exec writes it from its own goroutine
	b  bytes.Buffer
}

const tailSize = 4 << 10

// Write implements [io.Writer].
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if over := t.b.Len() - tailSize; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
