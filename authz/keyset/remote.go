package keyset

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Times of a [Remote].
const (
	refreshDefault = 10 * time.Minute // if the issuer does not say
	refreshLeast   = time.Minute
	refreshMost    = 24 * time.Hour
	// cooldown is what parts the fetches that unknown key ids cause.
	cooldown = 30 * time.Second
	// maxStale is how long a set is used after its issuer was last heard of.
	maxStale = 24 * time.Hour
	// Attempts of a first fetch, and of later ones, double their distance.
	firstBackoff, firstBackoffMost = time.Second, 8 * time.Second
	laterBackoff, laterBackoffMost = cooldown, 10 * time.Minute
)

// Remote is the key set that an issuer serves. It is fetched when it is first
// needed, by a goroutine that goes on until Close.
type Remote struct {
	address *address
	client  *http.Client
	log     *slog.Logger

	ctx    context.Context //nolint:containedctx // of the goroutine
	cancel context.CancelFunc
	begin  sync.Once
	done   sync.WaitGroup
	kick   chan struct{} // holds the wish for a fetch

	mu       sync.Mutex // guards everything below
	keys     []Key
	good     time.Time     // when they were fetched; zero for never
	last     time.Time     // when a fetch last began
	failures int           // since then
	fetching bool          // or about to
	round    chan struct{} // closed when the fetch that is under way ends
}

// NewRemote returns the key set at a URL, which is https, or http on a loopback
// address. It fetches nothing yet. A nil transport is that of net/http.
func NewRemote(url string, transport http.RoundTripper, log *slog.Logger) (*Remote, error) {
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Remote{
		address: a, client: a.client(transport), log: log, ctx: ctx, cancel: cancel,
		kick: make(chan struct{}, 1), round: make(chan struct{}),
	}, nil
}

// Close ends the goroutine and waits for it. Nothing is found afterwards that
// was not known before.
func (s *Remote) Close() {
	s.begin.Do(func() {}) // it never starts now
	s.cancel()
	s.done.Wait()
	s.client.CloseIdleConnections()
}

// Lookup implements [Set]. It waits for a fetch only if the key may come with
// it, and for no longer than a fetch takes.
func (s *Remote) Lookup(ctx context.Context, kid, alg string) ([]any, error) {
	s.begin.Do(s.start)
	found, round, err := s.look(kid, alg)
	if err == nil || round == nil {
		return found, err
	}
	select {
	case <-round:
	case <-ctx.Done():
		return nil, ErrUnavailable
	case <-s.ctx.Done():
		return nil, ErrUnavailable
	}
	found, _, err = s.look(kid, alg)
	return found, err
}

// look searches what is known. With an error it returns what ends when a fetch
// does that may change the result, if there is one.
func (s *Remote) look(kid, alg string) (found []any, round <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loaded := !s.good.IsZero() && time.Since(s.good) < maxStale
	if loaded {
		if found = find(s.keys, kid, alg); len(found) > 0 {
			return found, nil, nil
		}
		err = ErrUnknownKey
		if !s.fetching && time.Since(s.last) >= cooldown {
			s.fetching, s.last = true, time.Now()
			s.kick <- struct{}{} // has room: nobody else sends, and only once per fetch
		}
	} else {
		err = ErrUnavailable
	}
	if s.fetching {
		round = s.round
	}
	return nil, round, err
}

func (s *Remote) start() {
	s.mu.Lock()
	s.fetching = true
	s.mu.Unlock()
	s.done.Go(s.run)
}

// run fetches the set whenever it is due or wanted.
func (s *Remote) run() {
	for {
		timer := time.NewTimer(s.fetch())
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.ctx.Done():
		}
		timer.Stop()
		if s.ctx.Err() != nil {
			return
		}
	}
}

// fetch fetches the set once and returns when it is due again.
func (s *Remote) fetch() time.Duration {
	s.mu.Lock()
	s.fetching, s.last = true, time.Now()
	s.mu.Unlock()

	keys, refresh, err := s.address.get(s.ctx, s.client)

	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.kick: // this fetch was the one
	default:
	}
	s.fetching = false
	close(s.round)
	s.round = make(chan struct{})
	if err == nil {
		s.keys, s.good, s.failures = keys, time.Now(), 0
		return refresh
	}
	s.failures++
	wait := s.backoff()
	if s.ctx.Err() == nil {
		s.log.Warn("keys of an issuer were not fetched", slog.String("url", s.address.String()),
			slog.Any("error", err), slog.Duration("next_attempt", wait))
	}
	return wait
}

// backoff is how long to wait after a failure.
func (s *Remote) backoff() time.Duration {
	least, most := laterBackoff, laterBackoffMost
	if s.good.IsZero() {
		least, most = firstBackoff, firstBackoffMost
	}
	return min(most, least<<min(s.failures-1, 16))
}
