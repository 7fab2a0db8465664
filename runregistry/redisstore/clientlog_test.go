package redisstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

// A server that is down is told in our own log, seldom, and not on the standard
// error output for every attempt.
func TestClientThatCannotConnectSpeaksSeldomInOurLog(t *testing.T) {
	var out lines
	o, err := ParseOptions([]string{"redis://u:hunter2@127.0.0.1:1/0"}, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	o.Log = slog.New(slog.NewJSONHandler(&out, nil))
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const calls = 200
	for range calls {
		if _, err := s.Load(t.Context(), runregistry.NewRunID(1)); !errors.Is(err, runregistry.ErrUnavailable) {
			t.Fatalf("got error %v, want %v", err, runregistry.ErrUnavailable)
		}
	}
	told := out.all()
	if len(told) > calls/10 || !strings.Contains(told[0], "failed to dial") || !strings.Contains(told[0], `"msg":"Redis client"`) {
		t.Errorf("got %d lines for %d calls, the first %s, want few that tell why", len(told), calls, told[0])
	}
	if strings.Contains(strings.Join(told, ""), "hunter2") {
		t.Errorf("got the password in %q", told)
	}
}

func TestRemarksOfTheClientAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		var l clientLog
		l.log, l.remarks = slog.New(slog.NewTextHandler(&out, nil)), make(map[string]*remark)
		for range 25 {
			l.Printf(context.Background(), "dialling %s", "redis://u:hunter2@h:1")
			l.Printf(context.Background(), "another")
			time.Sleep(time.Second)
		}
		told := out.all()
		if len(told) != 6 {
			t.Fatalf("got %d lines in 25 s, want 2 in every 10 s: %q", len(told), told)
		}
		if last := told[4]; !strings.Contains(last, `text="dialling redis://h:1" not_told=9`) {
			t.Errorf("got %s, want the text without the password, and how often it was not told", last)
		}
	})
}
