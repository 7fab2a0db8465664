package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// clients are separate, so that a slow replay delays no append, and neither
// uses up the connections of the other.
type clients struct {
	appends redis.UniversalClient
	calls   redis.UniversalClient
	subs    redis.UniversalClient
}

// reloadCluster is how often the map of a Cluster is read again. The client's
// own default of a minute would prolong every failover.
const reloadCluster = 2 * time.Second

func newClients(o *Options) clients {
	clientSays.to(o.Log)
	return clients{
		appends: newClient(o, appendLanes(o)),
		calls:   newClient(o, o.PoolSize),
		subs:    newClient(o, 1),
	}
}

func (c clients) close() {
	for _, client := range []redis.UniversalClient{c.appends, c.calls, c.subs} {
		_ = client.Close() // there is nobody left to tell
	}
}

// newClient returns a client that has not connected. It does not retry: an
// append is sent again by its owner, who knows what happened meanwhile.
func newClient(o *Options, pool int) redis.UniversalClient {
	switch {
	case o.Sentinel != "":
		return redis.NewFailoverClient(failoverOptions(o, pool))
	case o.Cluster:
		return redis.NewClusterClient(clusterOptions(o, pool))
	}
	return redis.NewClient(&redis.Options{
		Addr: o.Addrs[0], DB: o.DB, TLSConfig: o.TLS, Dialer: o.Dialer,
		CredentialsProviderContext: provider(o.Credentials),
		MaxRetries:                 -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, PoolTimeout: o.Timeout,
		PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func failoverOptions(o *Options, pool int) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: o.Sentinel, SentinelAddrs: o.Addrs, DB: o.DB, TLSConfig: o.TLS, Dialer: o.Dialer,
		OnConnect:                  sentinelLogin(o.SentinelCredentials),
		CredentialsProviderContext: provider(o.Credentials),
		MaxRetries:                 -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, PoolTimeout: o.Timeout,
		PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
	}
}

// sentinelLogin authenticates connections to Sentinels. The client takes one
// password for them when it is made, and would never learn of another; so it is
// given none, and each new connection gets here without having said a word.
func sentinelLogin(c Credentials) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		if strings.HasPrefix(conn.String(), "Redis<FailoverClient ") {
			return nil // to the server, which has credentials of its own
		}
		user, password, err := c.Ask()
		switch {
		case err != nil || password == "":
			return err
		case user != "":
			return conn.AuthACL(ctx, user, password).Err()
		}
		return conn.Auth(ctx, password).Err()
	}
}

func clusterOptions(o *Options, pool int) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: o.Addrs, TLSConfig: o.TLS, Dialer: o.Dialer,
		CredentialsProviderContext: provider(o.Credentials),
		MaxRetries:                 -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, PoolTimeout: o.Timeout,
		PoolSize: pool, PipelinePoolSize: -1, DisableIdentity: true,
		ClusterStateReloadInterval: reloadCluster,
		MaintNotificationsConfig:   &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func provider(c Credentials) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return c.Ask() }
}

// durable runs a script and waits for replicas on the same connection: WAIT
// speaks of the writes of its own connection only. Too few are an error,
// although the write stands: what was not admitted for sure is not dispatched.
func (s *Store) durable(ctx context.Context, p *params, eval func(redis.Scripter) (reply, error)) (reply, error) {
	if s.opts.Wait == 0 {
		return eval(s.clients.calls)
	}
	node, err := s.master(ctx, p.keys[0])
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	conn := node.Conn()
	defer func() { _ = conn.Close() }()
	r, err := eval(conn)
	if err != nil || r.word() != "ok" {
		return r, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	n, err := conn.Wait(ctx, s.opts.Wait, s.opts.Timeout/2).Result()
	switch {
	case err != nil:
		return nil, unavailable(ctx, err)
	case n < int64(s.opts.Wait):
		return nil, fmt.Errorf("%w: %d of %d", unavailable(ctx, errReplicas), n, s.opts.Wait)
	}
	return r, nil
}

// master is the server that has a key.
func (s *Store) master(ctx context.Context, key string) (*redis.Client, error) {
	switch c := s.clients.calls.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Client:
		return c, nil
	}
	return nil, errReply
}
