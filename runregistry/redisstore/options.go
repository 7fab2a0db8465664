package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options say where Redis is and how to use it. Addrs must be set; everything
// else has a default.
type Options struct {
	// Addrs are host:port: of the server, of seed nodes of a Cluster, or of
	// Sentinels.
	Addrs []string
	// Cluster speaks to a Redis Cluster. Several addresses without Sentinel mean
	// the same.
	Cluster bool
	// Sentinel is the name under which Sentinels know the master.
	Sentinel string
	// DB is the number of the database; a Cluster has only 0.
	DB int

	// Credentials are asked for with every new connection, so that they may
	// change while the store is open. Nil: none.
	Credentials Credentials
	// SentinelCredentials are those for the Sentinels, likewise.
	SentinelCredentials Credentials
	// TLS is the configuration for connections; nil: no TLS.
	TLS *tls.Config

	// KeyPrefix opens every key and channel; default "ag:". Stores that do not
	// share runs need different ones.
	KeyPrefix string
	// PoolSize is the number of connections for calls; default 10. Appends and
	// subscriptions have their own.
	PoolSize int
	// Wait is the number of replicas that must acknowledge every admission and
	// settlement (WAIT); 0 waits for none.
	Wait int
	// Timeout bounds every call; default 2 s.
	Timeout time.Duration
	// Dialer opens connections; nil: a net.Dialer.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log gets what operators should know; nil: slog.Default.
	Log *slog.Logger
}

// Credentials return a user, which is empty for the default one, and its
// password.
type Credentials func() (user, password string, err error)

// Ask returns what c does, and nothing if there are none.
func (c Credentials) Ask() (user, password string, err error) {
	if c == nil {
		return "", "", nil
	}
	return c()
}

// Defaults of the options.
const (
	defaultPrefix  = "ag:"
	defaultPool    = 10
	defaultTimeout = 2 * time.Second
	maxWait        = 16
	maxPrefix      = 64
)

func (o *Options) setDefaults() {
	if o.KeyPrefix == "" {
		o.KeyPrefix = defaultPrefix
	}
	if o.PoolSize == 0 {
		o.PoolSize = defaultPool
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Cluster = o.Cluster || len(o.Addrs) > 1 && o.Sentinel == ""
}

// validate reports what cannot work, whatever the servers say.
func (o *Options) validate() error {
	switch {
	case len(o.Addrs) == 0:
		return errors.New("no Redis server is named")
	case o.PoolSize < 1:
		return fmt.Errorf("pool size is %d, and must be at least 1", o.PoolSize)
	case o.Wait < 0 || o.Wait > maxWait:
		return fmt.Errorf("waiting for %d replicas is not possible, only for 0 to %d", o.Wait, maxWait)
	case o.DB < 0:
		return fmt.Errorf("database is %d, and cannot be negative", o.DB)
	case o.Cluster && o.Sentinel != "":
		return errors.New("a server is behind Sentinel or part of a Cluster, not both")
	case o.Cluster && o.DB != 0:
		return fmt.Errorf("database is %d, but a Cluster has only 0", o.DB)
	}
	for _, addr := range o.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("address %q: %w", addr, err)
		}
	}
	return validPrefix(o.KeyPrefix)
}

// validPrefix accepts what cannot change the hash tag or a pattern.
func validPrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("key prefix has %d bytes, and may have %d", len(prefix), maxPrefix)
	}
	for _, c := range []byte(prefix) {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == ':', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("key prefix %q: only A-Z a-z 0-9 : . _ - are allowed", prefix)
		}
	}
	return nil
}
