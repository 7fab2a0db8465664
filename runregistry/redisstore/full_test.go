package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// older is a server of 6.2 that is full: it knows no scripts with flags.
type older struct {
	redis.Scripter
	asked []string
}

type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func (o *older) answer(ctx context.Context, what string, err error) *redis.Cmd {
	o.asked = append(o.asked, what)
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(err)
	return cmd
}

func (o *older) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	return o.answer(ctx, "sha", serverError("OOM command not allowed when used memory > 'maxmemory'."))
}

func (o *older) Eval(ctx context.Context, text string, _ []string, _ ...any) *redis.Cmd {
	first, _, _ := strings.Cut(text, "\n")
	return o.answer(ctx, first, serverError("ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'"))
}

func TestOldServerThatIsFullSaysSo(t *testing.T) {
	s, err := Open(Options{Addrs: []string{"192.0.2.1:1"}}) // RFC 5737: nobody is there
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := &older{}
	_, err = s.evalRoomy(t.Context(), server, call(settleScript))
	if !fullServer(err) || !errors.Is(err, runregistry.ErrUnavailable) {
		t.Errorf("got error %v, want that the server is full", err)
	}
	if len(server.asked) != 2 || server.asked[1] != "#!lua flags=allow-oom" {
		t.Errorf("got the server asked %q, want both ways", server.asked)
	}
}

// Whoever comes for frames that were given up is told, as for expired ones.
func TestFramesThatWereGivenUpHaveExpired(t *testing.T) {
	r := testkit.StartRedis(t)
	s, err := Open(Options{Addrs: []string{r.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sub := runregistry.Subject{Sub: "s"}
	scope := runregistry.SubjectScope(sub)
	d, err := s.Admit(t.Context(), &runregistry.Admission{
		Run: runregistry.NewRunID(partition(scope)), Subject: sub, Scope: scope,
		Retention: runregistry.Retention{Frames: time.Hour, Record: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Watch.Close()
	if _, err := s.Intend(t.Context(), d.Lease); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), d.Lease, &runregistry.Batch{Frames: [][]byte{{'a'}, {'b'}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.trimAll(t.Context(), d.Lease.Run); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), d.Lease, &runregistry.Settlement{State: runregistry.Completed}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Read(t.Context(), runregistry.PageQuery{Run: d.Lease.Run})
	if !errors.Is(err, runregistry.ErrExpired) || page.First != 0 || page.Final != 3 {
		t.Errorf("got %+v and error %v, want that the frames have expired", page, err)
	}
}
