package modeltest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// subjects are the users. The last one never starts anything.
var subjects = []string{"alice", "bob", "mallory"}

const mallory = "mallory"

// headerKey carries the key past the gateway, which strips the real one.
const headerKey = "X-Test-Key"

// world is two gateways on one store, a backend, viewers, and what the model
// knows about all of them.
type world struct {
	*testing.T
	redis *testkit.BubbleRedis
	busy  runregistry.Busy
	now   []*instance // the gateways that are alive
	links []*link
	// observer looks at the store past all gateways, over a link of its own.
	observer *redisstore.Store
	clients  sync.WaitGroup
	closing  sync.WaitGroup // instances that were killed
	slots    map[int]*slot

	mu       sync.Mutex // guards everything below
	problems []string
	calls    map[runregistry.RunID]*call
	keys     map[string]runregistry.RunID // the newest run that was dispatched under a key
	facts    map[runregistry.RunID]*fact
	deletes  int
	met      map[string]int // what happened, for whoever asks whether anything did
}

// meet counts something that happened.
func (w *world) meet(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.met[what]++
}

// slot is what became of one start.
type slot struct {
	subject string
	viewers [1 + viewers]*viewer
}

// run is the run that the start led to, or empty.
func (s *slot) run() runregistry.RunID {
	v := s.viewers[0]
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.run
}

// play carries out a plan in a bubble. It returns what was wrong, and how often
// it met what.
func play(t *testing.T, busy runregistry.Busy, steps []step) (problems []string, met map[string]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, busy)
		for _, s := range steps {
			w.do(s)
			if !s.rush {
				synctest.Wait()
				w.observe()
			}
		}
		w.settle()
		w.close()
		problems, met = w.problems, w.met
	})
	return problems, met
}

func newWorld(t *testing.T, busy runregistry.Busy) *world {
	t.Helper()
	w := &world{
		T: t, redis: testkit.StartBubbleRedis(t), busy: busy, slots: make(map[int]*slot),
		calls: make(map[runregistry.RunID]*call), keys: make(map[string]runregistry.RunID),
		facts: make(map[runregistry.RunID]*fact), met: make(map[string]int),
	}
	for range instances {
		w.now = append(w.now, w.newInstance())
	}
	own := newLink(w.redis)
	w.links = append(w.links, own)
	var err error
	if w.observer, err = openStore(own); err != nil {
		t.Fatal(err)
	}
	return w
}

// do carries out one step. A step that makes no sense, since it names a run
// that was refused for instance, does nothing.
func (w *world) do(s step) {
	on := w.now[s.at]
	switch s.do {
	case doStart:
		w.start(on, s)
	case doFrames:
		for range s.n {
			w.order(s.slot, doFrames)
		}
	case doEnd, doBreak:
		w.order(s.slot, s.do)
	case doJoin:
		w.join(on, w.slots[s.slot], s.viewer)
	case doLeave:
		w.leave(w.slots[s.slot], s.viewer)
	case doStop:
		w.stop(on, w.slots[s.slot])
	case doDelete:
		w.remove(on, w.slots[s.slot])
	case doPry:
		w.pry(on, w.slots[s.slot])
	case doWait:
		time.Sleep(s.wait) // in the bubble
	default:
		w.trouble(s)
	}
}

// trouble does something to an instance.
func (w *world) trouble(s step) {
	on := w.now[s.at]
	if s.do != doMend {
		on.troubled.Store(true)
	}
	switch s.do {
	case doKill:
		w.now[s.at] = w.newInstance()
		on.store.die()
		w.closing.Go(on.close)
		on.cutOff()
	case doCut:
		on.link.set(linkCut)
	case doFreeze:
		on.store.freeze(moment(s.n))
	case doLose:
		on.link.loseReplies(s.n)
	case doMiss:
		on.store.miss()
	default:
		on.store.mend()
	}
}

// order tells the backend of a run what to do next.
func (w *world) order(n int, do kind) {
	s := w.slots[n]
	if s == nil {
		return
	}
	run := s.run()
	w.mu.Lock()
	c := w.calls[run]
	w.mu.Unlock()
	if c != nil {
		if do == doBreak {
			c.broken.Store(true)
		}
		c.orders <- do
	}
}

// settle mends everything, lets all calls end and checks that all runs do, that
// every viewer gets the rest, and that no conversation stays busy.
func (w *world) settle() {
	for _, i := range w.now {
		i.store.mend()
	}
	time.Sleep(2*lease + lease/3) // in the bubble: whoever died is buried
	w.observe()
	w.mu.Lock()
	for _, c := range w.calls {
		c.orders <- doEnd
	}
	w.mu.Unlock()
	time.Sleep(8 * time.Second) // in the bubble: the longest pause between two tries to settle
	w.observe()
	w.allEnded()
	w.watchAll()
	w.conversationsAreFree()
	for _, key := range w.redis.Keys() {
		if w.redis.TTL(key) <= 0 {
			w.violated("key %s has no deadline", key)
		}
	}
}

// watchAll brings every viewer to the end of its run.
func (w *world) watchAll() {
	for n, s := range w.slots {
		for k := range s.viewers {
			w.leave(s, k)
			synctest.Wait()
			w.join(w.now[(n+k)%instances], s, k)
		}
	}
	synctest.Wait()
	for _, s := range w.slots {
		for _, v := range s.viewers {
			w.sawAll(v)
		}
	}
}

func (w *world) close() {
	for _, i := range w.now {
		i.cutOff()
		i.close()
	}
	w.closing.Wait()
	w.clients.Wait()
	w.observer.Close()
	for _, l := range w.links {
		l.working.Wait()
	}
}

// violated notes that something is wrong.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// request builds a request of a subject.
func request(ctx context.Context, method, path, subject, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway.test"+path, strings.NewReader(body))
	if err != nil {
		panic(err) // it is written in this package
	}
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set(testkit.SubjectHeader, subject)
	return r
}

// quiet throws logs away.
var quiet = slog.New(slog.DiscardHandler)
