package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry/redisstore"
)

func TestURLsBecomeOptions(t *testing.T) {
	for _, tt := range []struct {
		name     string
		urls     []string
		settings redisstore.Settings
		addrs    []string
		cluster  bool
		db       int
		tls      bool
		user     string
	}{
		{name: "one server", urls: []string{"redis://h"}, addrs: []string{"h:6379"}},
		{name: "port and database", urls: []string{"redis://h:1/3"}, addrs: []string{"h:1"}, db: 3},
		{name: "TLS and user", urls: []string{"rediss://u:p@h:1"}, addrs: []string{"h:1"}, tls: true, user: "u p"},
		{name: "password alone", urls: []string{"redis://:p@h"}, addrs: []string{"h:6379"}, user: " p"},
		{name: "user from the settings", urls: []string{"redis://:p@h"}, settings: redisstore.Settings{User: "u"}, addrs: []string{"h:6379"}, user: "u p"},
		{name: "IPv6", urls: []string{"redis://[::1]:2"}, addrs: []string{"[::1]:2"}},
		{name: "Cluster", urls: []string{"redis://a:1", "redis://b:2"}, addrs: []string{"a:1", "b:2"}, cluster: true},
		{name: "Sentinels", urls: []string{"redis://a:1", "redis://b:2"}, settings: redisstore.Settings{Sentinel: "m"}, addrs: []string{"a:1", "b:2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := redisstore.ParseOptions(tt.urls, tt.settings)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(o.Addrs, tt.addrs) || o.Cluster != tt.cluster || o.DB != tt.db || (o.TLS != nil) != tt.tls {
				t.Errorf("got %+v, want addresses %v, cluster %v, database %d, TLS %v", o, tt.addrs, tt.cluster, tt.db, tt.tls)
			}
			if got := credentials(t, o.Credentials); got != tt.user {
				t.Errorf("got credentials %q, want %q", got, tt.user)
			}
		})
	}
}

func credentials(t *testing.T, c redisstore.Credentials) string {
	t.Helper()
	if c == nil {
		return ""
	}
	user, password, err := c()
	if err != nil {
		t.Fatal(err)
	}
	return user + " " + password
}

func TestWrongOptionsAreRefusedWithTheirReason(t *testing.T) {
	for _, tt := range []struct {
		urls     []string
		settings redisstore.Settings
		want     string
	}{
		{nil, redisstore.Settings{}, "no Redis URL"},
		{[]string{"http://h"}, redisstore.Settings{}, "scheme must be redis or rediss"},
		{[]string{"redis://:secret@h:x"}, redisstore.Settings{}, "cannot be parsed"},
		{[]string{"redis:///1"}, redisstore.Settings{}, "host is missing"},
		{[]string{"redis://h?db=1"}, redisstore.Settings{}, "options do not belong"},
		{[]string{"redis://:secret@h/x"}, redisstore.Settings{}, "invalid database number"},
		{[]string{"redis://a", "rediss://b"}, redisstore.Settings{}, "must agree"},
		{[]string{"redis://a/1", "redis://b/1"}, redisstore.Settings{}, "Cluster has only 0"},
		{[]string{"redis://h"}, redisstore.Settings{PoolSize: -1}, "pool size is -1"},
		{[]string{"redis://h"}, redisstore.Settings{Wait: 99}, "waiting for 99 replicas"},
		{[]string{"redis://h"}, redisstore.Settings{KeyPrefix: "a{b}"}, "only A-Z"},
		{[]string{"redis://h"}, redisstore.Settings{KeyPrefix: strings.Repeat("a", 65)}, "65 bytes"},
		{[]string{"redis://h"}, redisstore.Settings{TLS: redisstore.TLSFiles{CA: "ca.pem"}}, "not rediss"},
		{[]string{"rediss://h"}, redisstore.Settings{TLS: redisstore.TLSFiles{CA: "missing.pem"}}, "reading CA"},
		{[]string{"rediss://h"}, redisstore.Settings{TLS: redisstore.TLSFiles{Cert: "c.pem"}}, "needs its key"},
		{[]string{"redis://:secret@h"}, redisstore.Settings{PasswordFile: "p"}, "in one of them"},
	} {
		_, err := redisstore.ParseOptions(tt.urls, tt.settings)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got error %v, want one about %q", tt.urls, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: got the password in %q", tt.urls, err)
		}
	}
	if _, err := redisstore.Open(redisstore.Options{Addrs: []string{"h"}}); err == nil {
		t.Error("got a store with an address without port, want an error")
	}
}

func TestOpeningDoesNotConnect(t *testing.T) {
	s, err := redisstore.Open(redisstore.Options{Addrs: []string{"192.0.2.1:1"}}) // RFC 5737: nobody is there
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
}

// The password is read again for every connection.
func TestRotatedPasswordIsUsedWithoutARestart(t *testing.T) {
	r := testkit.StartRedis(t)
	r.Do("CONFIG", "SET", "requirepass", "first")
	r.Password = "first"
	file := filepath.Join(t.TempDir(), "password")
	rotate := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("first")
	o, err := redisstore.ParseOptions([]string{r.URL()}, redisstore.Settings{PasswordFile: file})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	if _, err := s.Admit(t.Context(), admission("a")); err != nil {
		t.Fatal(err)
	}
	r.Do("CONFIG", "SET", "requirepass", "second")
	r.Password = "second"
	r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	rotate("second")
	testkit.Eventually(t, "the new password is used", func() bool {
		_, err := s.Admit(t.Context(), admission("b"))
		return err == nil
	})
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, DNSNames: []string{"redis.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", raw)
}

func TestTLSWithClientCertificate(t *testing.T) {
	cert, key := certificate(t)
	r := testkit.StartRedis(t)
	tlsPort := testkit.RedisPort(t)
	r.Do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", cert, "tls-auth-clients", "yes", "tls-port", tlsPort)
	url := strings.Replace(r.URL(), "redis://", "rediss://", 1)
	url = url[:strings.LastIndexByte(url, ':')+1] + big.NewInt(int64(tlsPort)).String()
	files := redisstore.TLSFiles{CA: cert, Cert: cert, Key: key, ServerName: "redis.test"}
	o, err := redisstore.ParseOptions([]string{url}, redisstore.Settings{TLS: files})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, o).Admit(t.Context(), admission("c")); err != nil {
		t.Errorf("with the certificate: got error %v, want none", err)
	}
	for name, files := range map[string]redisstore.TLSFiles{
		"no client certificate": {CA: cert, ServerName: "redis.test"},
		"unknown CA":            {Cert: cert, Key: key, ServerName: "redis.test"},
		"another name":          {CA: cert, Cert: cert, Key: key, ServerName: "other.test"},
	} {
		o, err := redisstore.ParseOptions([]string{url}, redisstore.Settings{TLS: files})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, o).Admit(t.Context(), admission("d")); err == nil {
			t.Errorf("%s: got a run, want an error", name)
		}
	}
}
