package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

//go:embed scripts/*.lua scripts/lib/*.lua
var sources embed.FS

// script is a Lua script with what it shares with others in front of it.
type script struct {
	name string
	text string
	sha  string
	// roomy is the variant that may write when the server is out of memory. It
	// needs Redis 7, and is sent only then.
	roomy string
}

// newScript puts a script and the parts of the library that it needs together.
// Every call runs all of it, so that nothing belongs in front that is not used.
func newScript(name string, needs ...string) *script {
	files := []string{"lib/base"}
	for _, part := range needs {
		files = append(files, "lib/"+part)
	}
	var text strings.Builder
	for _, file := range append(files, name) {
		part, err := sources.ReadFile("scripts/" + file + ".lua")
		if err != nil {
			panic(err)
		}
		text.Write(part)
	}
	return &script{
		name: name, text: text.String(), sha: redis.NewScript(text.String()).Hash(),
		roomy: "#!lua flags=allow-oom\n" + text.String(),
	}
}

var (
	admitScript    = newScript("admit", "change", "readers", "claims")
	attachScript   = newScript("attach", "once", "readers")
	appendScript   = newScript("append", "change")
	bindScript     = newScript("bind", "change", "claims")
	changeScript   = newScript("change", "change")
	deleteScript   = newScript("delete", "once", "claims")
	deliverScript  = newScript("deliver", "once")
	expiredScript  = newScript("expired")
	prolongScript  = newScript("prolong", "claims")
	readScript     = newScript("read")
	readersScript  = newScript("readers", "readers")
	renewScript    = newScript("renew", "readers")
	reserveScript  = newScript("reserve", "claims")
	restoreScript  = newScript("restore", "claims")
	settleScript   = newScript("settle", "change", "claims")
	takeoverScript = newScript("takeover")
	turnScript     = newScript("turn", "change")

	// allScripts are for tests: none may be forgotten there.
	allScripts = []*script{
		admitScript, attachScript, appendScript, bindScript, changeScript, deleteScript, deliverScript,
		expiredScript, prolongScript, readScript, readersScript, renewScript, reserveScript, restoreScript, settleScript, takeoverScript, turnScript,
	}
)

// params collects what a script takes, in its order.
type params struct {
	script *script
	keys   []string
	args   []any
}

func call(s *script) *params { return &params{script: s} }

func (p *params) key(keys ...string) *params {
	p.keys = append(p.keys, keys...)
	return p
}

func (p *params) arg(args ...any) *params {
	p.args = append(p.args, args...)
	return p
}

// flag is how scripts take a truth.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// reply is what a script says.
type reply []any

func (r reply) word() string { return r.text(0) }

func (r reply) text(i int) string {
	if i < len(r) {
		if s, ok := r[i].(string); ok {
			return s
		}
	}
	return ""
}

func (r reply) number(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r reply) seq(i int) runregistry.Seq { return runregistry.Seq(r.number(i)) }

// eval runs one script and learns the server's time from its reply.
func (s *Store) eval(ctx context.Context, c redis.Scripter, p *params) (reply, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	sent := time.Now()
	cmd := c.EvalSha(ctx, p.script.sha, p.keys, p.args...)
	if unknownScript(cmd.Err()) {
		cmd = c.Eval(ctx, p.script.text, p.keys, p.args...)
	}
	return s.take(ctx, sent, p, cmd)
}

// evalRoomy is eval for what must succeed on a server without memory to give:
// it frees more than it takes. A server that does not know how is still full.
func (s *Store) evalRoomy(ctx context.Context, c redis.Scripter, p *params) (reply, error) {
	r, full := s.eval(ctx, c, p)
	if !fullServer(full) {
		return r, full
	}
	limit, cancel := s.deadline(ctx)
	defer cancel()
	r, err := s.take(limit, time.Now(), p, c.Eval(limit, p.script.roomy, p.keys, p.args...))
	if errors.As(err, new(redis.Error)) {
		return nil, full
	}
	return r, err
}

// evalAll runs scripts in one pipeline. A server that does not know a script
// has not run it, and is sent its text instead.
func (s *Store) evalAll(ctx context.Context, c redis.UniversalClient, calls []*params) ([]reply, []error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	sent := time.Now()
	cmds := pipelined(ctx, c, calls, func(pipe redis.Pipeliner, p *params) *redis.Cmd {
		return pipe.EvalSha(ctx, p.script.sha, p.keys, p.args...)
	})
	var again []*params
	var where []int
	for i, cmd := range cmds {
		if unknownScript(cmd.Err()) {
			again, where = append(again, calls[i]), append(where, i)
		}
	}
	for i, cmd := range pipelined(ctx, c, again, func(pipe redis.Pipeliner, p *params) *redis.Cmd {
		return pipe.Eval(ctx, p.script.text, p.keys, p.args...)
	}) {
		cmds[where[i]] = cmd
	}
	replies, errs := make([]reply, len(calls)), make([]error, len(calls))
	for i, cmd := range cmds {
		replies[i], errs[i] = s.take(ctx, sent, calls[i], cmd)
	}
	return replies, errs
}

func pipelined(ctx context.Context, c redis.UniversalClient, calls []*params, add func(redis.Pipeliner, *params) *redis.Cmd) []*redis.Cmd {
	if len(calls) == 0 {
		return nil
	}
	pipe := c.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, p := range calls {
		cmds[i] = add(pipe, p)
	}
	_, _ = pipe.Exec(ctx) // every command carries its own error
	return cmds
}

func (s *Store) take(ctx context.Context, sent time.Time, p *params, cmd *redis.Cmd) (reply, error) {
	v, err := cmd.Slice()
	r := reply(v)
	if err == nil && r.word() == "" {
		err = errReply
	}
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", p.script.name, unavailable(ctx, err))
	}
	s.clock.observe(sent, r.number(1))
	return r, nil
}

func unknownScript(err error) bool { return refused(err, "NOSCRIPT") }

// fullServer reports whether a server has no memory to give.
func fullServer(err error) bool { return refused(err, "OOM") }

// refused reports whether a server refused a command with a code.
func refused(err error, code string) bool {
	var e redis.Error
	return errors.As(err, &e) && strings.HasPrefix(e.Error(), code+" ")
}
