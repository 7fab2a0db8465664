package runregistry

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// Subject is who owns a run. Two subjects are the same only if all four parts
// are: two issuers may use one sub, two realms may share a store.
type Subject struct {
	Realm  string
	Tenant string
	Issuer string
	Sub    string
}

// Key returns an unambiguous text form, for use as a map or index key.
func (s Subject) Key() string { return joinKey(s.Realm, s.Tenant, s.Issuer, s.Sub) }

// Scope is the namespace in which conversation ids are unique: one subject, or
// all subjects of a tenant.
type Scope string

// SubjectScope isolates conversations of one subject from everybody else's.
func SubjectScope(s Subject) Scope { return Scope("s" + s.Key()) }

// TenantScope shares conversations among the subjects of (realm, tenant).
func TenantScope(s Subject) Scope { return Scope("t" + joinKey(s.Realm, s.Tenant)) }

// joinKey writes length-prefixed parts, so that no choice of parts collides
// with another.
func joinKey(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = strconv.AppendInt(b, int64(len(p)), 10)
		b = append(b, ':')
		b = append(b, p...)
	}
	return string(b)
}

// Digest is a SHA-256 hash that stands for something that must not be stored
// or compared in clear: an idempotency key, a request.
type Digest [sha256.Size]byte

// IsZero reports whether the digest is absent.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the digest in unpadded base64url.
func (d Digest) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }
