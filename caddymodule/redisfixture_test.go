package caddymodule

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// redisEnvironment sets what configurations of tests refer to.
func redisEnvironment(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("REDIS_PASSWORD", "p@ss/w:rd")
	t.Setenv("REDIS_URL", "redis://localhost:6380/3")
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	writeCertificate(t, filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key"))
}

// writeCertificate makes a certificate that nobody will be shown.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "PRIVATE KEY", text)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inRedis is the body of a global option.
func inRedis(url string, options ...string) string {
	text := fmt.Sprintf("agent_runs {\nstore redis %s {\n", url)
	for _, o := range options {
		text += o + "\n"
	}
	return text + "}\n}"
}
