package authz

import (
	"context"
	"slices"
)

// everything in a list of conversations means all of the tenant.
const everything = "*"

// ClaimsPolicy lets subjects of one tenant share conversations that their
// tokens list.
type ClaimsPolicy struct {
	// Read and Write are the names of claims that list conversation ids.
	Read  string
	Write string
}

var (
	_ Policy  = ClaimsPolicy{}
	_ Carrier = ClaimsPolicy{}
)

// May implements [Policy]. Who started a run always may, and a conversation
// without a run may be started by anybody.
func (p ClaimsPolicy) May(_ context.Context, a Ask) (bool, error) {
	if Owns(a.Caller.Subject, a.Owner) || a.Verb == Start && a.Owner == (Subject{}) {
		return true, nil
	}
	claim := p.Write
	if a.Verb == Read {
		claim = p.Read
	}
	listed := a.Caller.Claims.Values(claim)
	covered := slices.Contains(listed, a.Conversation) || slices.Contains(listed, everything)
	return covered && a.Caller.Known && a.Caller.Subject.Tenant == a.Owner.Tenant, nil
}

// Shared implements [Policy].
func (ClaimsPolicy) Shared() bool { return true }

// String implements [Policy].
func (ClaimsPolicy) String() string { return "claims" }

// Carry implements [Carrier].
func (p ClaimsPolicy) Carry(a Ask) map[string]any {
	listed := a.Caller.Claims.Values(p.Read)
	if slices.Contains(listed, a.Conversation) || slices.Contains(listed, everything) {
		return map[string]any{p.Read: []any{a.Conversation}}
	}
	return nil
}
