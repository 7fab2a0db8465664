package caddymodule

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

// Redis says which Redis or Valkey keeps the runs, and how it is used. All of
// it goes with the store `redis`. Texts may have placeholders such as
// {env.REDIS_PASSWORD} and {file./run/secrets/redis}, which are resolved when
// the configuration is loaded.
type Redis struct {
	// Addresses of the form redis://[user[:password]@]host[:port][/db], or
	// rediss:// for TLS. Several are the seed nodes of a Cluster or, with
	// `sentinel`, the Sentinels.
	URLs []string `json:"urls,omitempty"`

	// The name under which Sentinels know the server. Default: no Sentinels.
	Sentinel string `json:"sentinel,omitempty"`

	// `wait:<n>` makes every admission and every end of a run wait for n
	// replicas. Default: it waits for none.
	Durability string `json:"durability,omitempty"`

	// What all keys begin with: gateways that share runs have the same.
	// Default: "ag:".
	KeyPrefix string `json:"key_prefix,omitempty"`

	// Connections for calls, beside those for appends and subscriptions.
	// Default: 10.
	PoolSize int `json:"pool_size,omitempty"`

	// How rediss:// addresses are spoken to.
	TLS RedisTLS `json:"tls,omitzero"`

	// The ACL user, if the address names none. Default: the default user.
	User string `json:"user,omitempty"`

	// A file with the password. It is read for every new connection, so a
	// rotated password needs no reload. Default: the address has it.
	PasswordFile string `json:"password_file,omitempty"`

	// The ACL user for the Sentinels.
	SentinelUser string `json:"sentinel_user,omitempty"`

	// A file with the password for the Sentinels, likewise read for every new
	// connection.
	SentinelPasswordFile string `json:"sentinel_password_file,omitempty"`

	opts redisstore.Options // set by resolve
}

// RedisTLS says how Redis is spoken to over TLS.
type RedisTLS struct {
	// A PEM file with the certificates of the CAs to trust. Default: those of
	// the system.
	CA string `json:"ca,omitempty"`

	// A PEM file with the certificate of this client. It is read again for every
	// connection.
	Certificate string `json:"cert,omitempty"`

	// The key of the certificate, likewise.
	Key string `json:"key,omitempty"`

	// The name that the server's certificate must have. Default: the host of the
	// address.
	ServerName string `json:"server_name,omitempty"`
}

const storeRedis = "redis"

var redisOptions = map[string]option[*Redis]{
	"sentinel":               {parse: text(func(r *Redis) *string { return &r.Sentinel })},
	"durability":             {parse: text(func(r *Redis) *string { return &r.Durability })},
	"key_prefix":             {parse: text(func(r *Redis) *string { return &r.KeyPrefix })},
	"pool_size":              {parse: number(1, func(r *Redis) *int { return &r.PoolSize })},
	"tls":                    {parse: parseRedisTLS},
	"user":                   {parse: text(func(r *Redis) *string { return &r.User })},
	"password_file":          {parse: text(func(r *Redis) *string { return &r.PasswordFile })},
	"sentinel_user":          {parse: text(func(r *Redis) *string { return &r.SentinelUser })},
	"sentinel_password_file": {parse: text(func(r *Redis) *string { return &r.SentinelPasswordFile })},
}

var redisTLSOptions = map[string]option[*RedisTLS]{
	"ca":          {parse: text(func(t *RedisTLS) *string { return &t.CA })},
	"cert":        {parse: text(func(t *RedisTLS) *string { return &t.Certificate })},
	"key":         {parse: text(func(t *RedisTLS) *string { return &t.Key })},
	"server_name": {parse: text(func(t *RedisTLS) *string { return &t.ServerName })},
}

func parseRedisTLS(r *Redis, b *block) error {
	return parseOptions(&r.TLS, b, "store.tls", redisTLSOptions)
}

const redisURLAllowed = "redis <redis://host:port...> or <rediss://host:port...>"

// parseRedis parses what follows "store redis".
func parseRedis(a *App, b *block, urls []string) error {
	if len(urls) == 0 {
		return b.WrapErr(wrong("store", storeRedis, redisURLAllowed))
	}
	a.Store.URLs = urls
	return parseOptions(&a.Store.Redis, b, "store", redisOptions)
}

// unused tells whether nothing is configured.
func (r Redis) unused() bool {
	return len(r.URLs) == 0 && r.PoolSize == 0 && r.TLS == (RedisTLS{}) &&
		r.Sentinel+r.Durability+r.KeyPrefix+r.User+r.PasswordFile+r.SentinelUser+r.SentinelPasswordFile == ""
}

// check looks at what stands in the configuration. It reads no file and no
// placeholder: `caddy adapt` may run on another machine.
func (r Redis) check() error {
	if len(r.URLs) == 0 {
		return wrong("store", storeRedis, redisURLAllowed)
	}
	wait, err := r.wait()
	if err != nil {
		return err
	}
	if (r.TLS.Certificate == "") != (r.TLS.Key == "") {
		return clash("store.tls", "a client certificate needs its key, and a key its certificate")
	}
	if slices.ContainsFunc(r.URLs, func(u string) bool { return strings.HasPrefix(u, "{") }) {
		return nil // a placeholder is the whole address: nothing to see before it is resolved
	}
	return r.blunt().blame(wait)
}

var placeholder = regexp.MustCompile(`\{[^{}]+\}`)

// blunt stands a digit in for every placeholder, which fits wherever one may
// be.
func (r Redis) blunt() Redis {
	r.URLs = slices.Clone(r.URLs)
	for _, field := range r.texts() {
		*field = placeholder.ReplaceAllString(*field, "0")
	}
	return r
}

// texts are the fields that may have placeholders. It changes r.URLs in place.
func (r *Redis) texts() []*string {
	fields := []*string{
		&r.Sentinel, &r.KeyPrefix, &r.User, &r.PasswordFile, &r.SentinelUser, &r.SentinelPasswordFile,
		&r.TLS.CA, &r.TLS.Certificate, &r.TLS.Key, &r.TLS.ServerName,
	}
	for i := range r.URLs {
		fields = append(fields, &r.URLs[i])
	}
	return fields
}

// blame adds one option after the other, so that a mistake is told of the
// option that makes it.
func (r Redis) blame(wait int) error {
	s := redisstore.Settings{Sentinel: r.Sentinel}
	for _, step := range []struct {
		option string
		add    func()
	}{
		{"store", func() {}},
		{"store.key_prefix", func() { s.KeyPrefix = r.KeyPrefix }},
		{"store.pool_size", func() { s.PoolSize = r.PoolSize }},
		{"store.durability", func() { s.Wait = wait }},
		{"store.password_file", func() { s.User, s.PasswordFile = r.User, r.PasswordFile }},
		{"store.tls", func() {
			if r.TLS != (RedisTLS{}) {
				s.TLS.ServerName = "any" // its files are read when it is loaded
			}
		}},
	} {
		step.add()
		if _, err := redisstore.ParseOptions(r.URLs, s); err != nil {
			return clash(step.option, "%v", err)
		}
	}
	return nil
}

const durabilityAllowed = "wait:<n>, the number of replicas from 1 on"

// wait reads the durability option.
func (r Redis) wait() (int, error) {
	if r.Durability == "" {
		return 0, nil
	}
	text, ok := strings.CutPrefix(r.Durability, "wait:")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 {
		return 0, wrong("store.durability", r.Durability, durabilityAllowed)
	}
	return n, nil
}

// resolve replaces placeholders and reads what is needed to connect. It does
// not connect.
func (r *Redis) resolve() error {
	if err := r.check(); err != nil { // it tells more than what fails later
		return err
	}
	wait, err := r.wait()
	if err != nil {
		return err
	}
	plain := *r
	plain.URLs = slices.Clone(r.URLs)
	for _, field := range plain.texts() {
		if *field, err = expand(*field); err != nil {
			return clash("store", "%v", err)
		}
	}
	r.opts, err = redisstore.ParseOptions(plain.URLs, redisstore.Settings{
		Sentinel: plain.Sentinel, KeyPrefix: plain.KeyPrefix, PoolSize: plain.PoolSize, Wait: wait,
		TLS:  redisstore.TLSFiles{CA: plain.TLS.CA, Cert: plain.TLS.Certificate, Key: plain.TLS.Key, ServerName: plain.TLS.ServerName},
		User: plain.User, PasswordFile: plain.PasswordFile,
		SentinelUser: plain.SentinelUser, SentinelPasswordFile: plain.SentinelPasswordFile,
	})
	if err != nil {
		return clash("store", "%v", err)
	}
	return nil
}

// expand replaces placeholders. What comes into the user part of an address is
// escaped: a password may have any bytes.
func expand(text string) (string, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	at := strings.LastIndex(rest, "@")
	if !isURL || at < 0 || strings.Contains(scheme, "{") {
		return replaced(text, func(s string) string { return s })
	}
	user, err := replaced(rest[:at], func(s string) string {
		return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	})
	if err != nil {
		return "", err
	}
	host, err := replaced(rest[at:], func(s string) string { return s })
	return scheme + "://" + user + host, err
}

func replaced(text string, escape func(string) string) (string, error) {
	return caddy.NewReplacer().ReplaceFunc(text, func(name string, value any) (any, error) {
		found := caddy.ToString(value)
		if found == "" {
			return nil, fmt.Errorf("{%s} is empty or unknown", name)
		}
		return escape(found), nil
	})
}

// place tells one Redis from another.
func (r Redis) place() string {
	o := r.opts
	if len(o.Addrs) == 0 {
		return ""
	}
	addrs := slices.Sorted(slices.Values(o.Addrs))
	return fmt.Sprintf("%s/%d %s %s", strings.Join(addrs, ","), o.DB, o.KeyPrefix, o.Sentinel)
}

// restarts reports whether o differs in what only a restart changes.
func (r Redis) restarts(o Redis) bool {
	return r.opts.PoolSize != o.opts.PoolSize || r.opts.Wait != o.opts.Wait || r.TLS != o.TLS
}
