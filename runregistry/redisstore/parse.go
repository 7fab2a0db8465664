package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Settings are what a configuration says beside the URLs.
type Settings struct {
	Sentinel  string // name of the master
	KeyPrefix string
	PoolSize  int
	// Wait is the N of "durability wait:N".
	Wait int
	TLS  TLSFiles

	// User is the ACL user, if the URL names none.
	User string
	// PasswordFile holds the password. It is read for every new connection, so
	// that a rotated password is used without a restart.
	PasswordFile string
	// SentinelUser and SentinelPasswordFile are the same for the Sentinels.
	SentinelUser         string
	SentinelPasswordFile string
}

// TLSFiles configure TLS for rediss:// URLs.
type TLSFiles struct {
	CA         string // PEM; empty: the system's roots
	Cert, Key  string // client certificate, PEM; read for every handshake
	ServerName string // empty: the host of the URL
}

// ParseOptions reads URLs of the forms redis://[user[:password]@]host[:port][/db]
// and, with TLS, rediss://... Several URLs are the seed nodes of a Cluster, or
// the Sentinels if the settings name a master. All must agree in everything but
// their host. It does not connect; it reads the CA file.
func ParseOptions(urls []string, s Settings) (Options, error) {
	o := Options{Sentinel: s.Sentinel, KeyPrefix: s.KeyPrefix, PoolSize: s.PoolSize, Wait: s.Wait}
	var first *redis.Options
	for _, text := range urls {
		parsed, err := parseURL(text)
		switch {
		case err != nil:
			return Options{}, err
		case first == nil:
			first = parsed
		case parsed.Username != first.Username || parsed.Password != first.Password ||
			parsed.DB != first.DB || (parsed.TLSConfig == nil) != (first.TLSConfig == nil):
			return Options{}, errors.New("all URLs must agree in scheme, user, password and database")
		}
		o.Addrs = append(o.Addrs, parsed.Addr)
	}
	if first == nil {
		return Options{}, errors.New("no Redis URL is given")
	}
	o.DB = first.DB
	var err error
	if o.Credentials, err = credentials(first, s); err != nil {
		return Options{}, err
	}
	if s.SentinelPasswordFile != "" {
		o.SentinelCredentials = fileCredentials(s.SentinelUser, s.SentinelPasswordFile)
	}
	if o.TLS, err = s.TLS.config(first.TLSConfig); err != nil {
		return Options{}, err
	}
	o.setDefaults()
	return o, o.validate()
}

// parseURL is redis.ParseURL without socket paths and options, and with errors
// that never repeat a password.
func parseURL(text string) (*redis.Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of Redis cannot be parsed")
	}
	shown := u.Redacted()
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, fmt.Errorf("%s: the scheme must be redis or rediss", shown)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s: the host is missing", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: options do not belong into the URL", shown)
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", shown, strings.TrimPrefix(err.Error(), "redis: "))
	}
	return o, nil
}

func credentials(u *redis.Options, s Settings) (Credentials, error) {
	user := u.Username
	if user == "" {
		user = s.User
	}
	switch {
	case s.PasswordFile != "" && u.Password != "":
		return nil, errors.New("the password is in the URL and in a file, and may be in one of them")
	case s.PasswordFile != "":
		return fileCredentials(user, s.PasswordFile), nil
	case user == "" && u.Password == "":
		return nil, nil
	}
	return func() (string, string, error) { return user, u.Password, nil }, nil
}

// fileCredentials reads the file each time.
func fileCredentials(user, file string) Credentials {
	return func() (string, string, error) {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return "", "", fmt.Errorf("reading password: %w", err)
		}
		return user, strings.TrimRight(string(text), "\r\n"), nil
	}
}

func (f TLSFiles) config(base *tls.Config) (*tls.Config, error) {
	if base == nil {
		if f != (TLSFiles{}) {
			return nil, errors.New("TLS is configured, but the URL is not rediss")
		}
		return nil, nil
	}
	if f.ServerName != "" {
		base.ServerName = f.ServerName
	}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("reading CA: %w", err)
		}
		base.RootCAs = x509.NewCertPool()
		if !base.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CA %s holds no certificate", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a client certificate needs its key, and a key its certificate")
	}
	if f.Cert != "" {
		if _, err := tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
			return nil, fmt.Errorf("reading client certificate: %w", err)
		}
		base.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(f.Cert, f.Key) // it may have been renewed
			return &c, err
		}
	}
	return base, nil
}
