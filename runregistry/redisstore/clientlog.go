package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clientLog takes what the client says, which otherwise goes to the standard
// error output: mostly why it cannot connect. The client has one logger for the
// whole process, so that it goes to the log of the store that was opened last.
// What matters to a caller comes back to it as an error too.
type clientLog struct {
	mu      sync.Mutex // guards everything below
	log     *slog.Logger
	remarks map[string]*remark // by format
}

// remark is one thing that the client says, over and over while a server is
// down.
type remark struct {
	said   time.Time
	unsaid int // since then
}

const (
	// remarkEvery is how often one thing is told.
	remarkEvery = 10 * time.Second
	// remarkKinds bounds the formats that are remembered; the client has about
	// a hundred, all constant.
	remarkKinds = 256
)

var clientSays clientLog

// to sends what the client says from now on to a log.
func (l *clientLog) to(log *slog.Logger) {
	l.mu.Lock()
	l.log, l.remarks = log, make(map[string]*remark)
	l.mu.Unlock()
	redis.SetLogger(l)
}

// Printf implements the client's logger.
func (l *clientLog) Printf(ctx context.Context, format string, v ...any) {
	log, unsaid, due := l.due(format, time.Now())
	if due {
		log.InfoContext(ctx, "Redis client", slog.String("text", discreet(fmt.Sprintf(format, v...))), slog.Int("not_told", unsaid))
	}
}

// due reports whether a remark is told now, and how often it was not since the
// last time.
func (l *clientLog) due(format string, now time.Time) (log *slog.Logger, unsaid int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remarks[format]
	switch {
	case r == nil && len(l.remarks) >= remarkKinds:
		return nil, 0, false
	case r == nil:
		r = new(remark)
		l.remarks[format] = r
	case now.Sub(r.said) < remarkEvery:
		r.unsaid++
		return nil, 0, false
	}
	unsaid = r.unsaid
	*r = remark{said: now}
	return l.log, unsaid, true
}

// userinfo is what stands before the host of an address.
var userinfo = regexp.MustCompile(`//[^/\s]*@`)

// discreet takes passwords out of addresses. The client names hosts only, but
// what it wraps may come from anywhere.
func discreet(text string) string { return userinfo.ReplaceAllString(text, "//") }
