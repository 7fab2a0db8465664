package caddymodule

import "testing"

// jwtEnvironment sets what the configurations in testdata read.
func jwtEnvironment(t *testing.T) {
	t.Helper()
	t.Setenv("JWT_SECRET", "only-a-test-secret-only-a-test-secret")
	t.Setenv("ISSUER", "https://login.example.com")
	t.Setenv("AUDIENCE", "chat")
	t.Setenv("JWKS", "https://login.example.com/keys")
}
