package authz

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// MaxTicketLife is the longest that a ticket lives.
const MaxTicketLife = 15 * time.Minute

// Tickets makes and reads tickets: texts that stand for a caller, can read one
// resource, and end soon. They are for clients that cannot send credentials, an
// EventSource without cookies. A ticket is sealed, so that it says nothing to
// those who see it in a URL, and good for one resource alone.
type Tickets struct {
	keys keyring
	life time.Duration
}

// NewTickets returns tickets that live for at most life, and never longer than
// [MaxTicketLife]. The secret is that of [Options].Secret.
func NewTickets(secret func() ([]byte, error), life time.Duration) *Tickets {
	return &Tickets{keys: keyring{load: secret}, life: min(life, MaxTicketLife)}
}

// ticket is the sealed content.
type ticket struct {
	Tenant  string         `json:"t,omitempty"`
	Issuer  string         `json:"i"`
	Sub     string         `json:"s"`
	Expires int64          `json:"e"` // milliseconds since 1970
	Claims  map[string]any `json:"c,omitempty"`
}

// Carrier is implemented by policies that decide by what a token says.
type Carrier interface {
	// Carry returns the claims that a ticket needs of the caller's token, so that
	// reading by ticket is decided as reading by the token is.
	Carry(a Ask) map[string]any
}

// Issue makes a ticket for a caller and a resource, with the claims that are
// needed when it is used. It does not outlive the caller's credential. Errors
// wrap [ErrUnavailable].
func (t *Tickets) Issue(ctx context.Context, c Caller, resource string, claims map[string]any) (text string, expires time.Time, err error) {
	seal, err := t.cipher(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	expires = time.Now().Add(t.life).Truncate(time.Millisecond)
	if !c.Expires.IsZero() && c.Expires.Before(expires) {
		expires = c.Expires.Truncate(time.Millisecond)
	}
	content, err := json.Marshal(ticket{
		Tenant: c.Subject.Tenant, Issuer: c.Subject.Issuer, Sub: c.Subject.Sub, Expires: expires.UnixMilli(), Claims: claims,
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("writing a ticket: %w", err)
	}
	sealed := seal.Seal(nil, nil, content, []byte(resource)) //nolint:gosec // G407: it draws its own nonce
	return base64.RawURLEncoding.EncodeToString(sealed), expires, nil
}

// Read returns the caller of a ticket. [ErrBadCredentials] for every text that
// is no ticket for this resource, or no longer; other errors wrap
// [ErrUnavailable].
func (t *Tickets) Read(ctx context.Context, text, resource string) (Caller, error) {
	seal, err := t.cipher(ctx)
	if err != nil {
		return Caller{}, err
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Caller{}, ErrBadCredentials
	}
	content, err := seal.Open(nil, nil, sealed, []byte(resource))
	if err != nil {
		return Caller{}, ErrBadCredentials
	}
	var held ticket
	if err := json.Unmarshal(content, &held); err != nil {
		return Caller{}, ErrBadCredentials
	}
	expires := time.UnixMilli(held.Expires)
	if !time.Now().Before(expires) {
		return Caller{}, ErrBadCredentials
	}
	return Caller{
		Subject: Subject{Tenant: held.Tenant, Issuer: held.Issuer, Sub: held.Sub}, Known: true, Expires: expires, Claims: ClaimsOf(held.Claims),
	}, nil
}

// cipher returns what seals tickets. Each gets a random nonce of its own.
func (t *Tickets) cipher(ctx context.Context) (cipher.AEAD, error) {
	k, err := t.keys.get(ctx)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k.mac("ticket"))
	if err != nil {
		return nil, fmt.Errorf("sealing tickets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("sealing tickets: %w", err)
	}
	return aead, nil
}
