package authz

import (
	"context"
	"net/http"
)

// Verb is a right over what somebody started. One does not follow from
// another: who may read along need not be able to stop it.
type Verb uint8

// The verbs.
const (
	// Read is to attach, to look up and to take a snapshot.
	Read Verb = iota
	// Write is to steer, stop and delete.
	Write
	// Start is to begin something new in a conversation.
	Start
)

// Ask is one question to a [Policy].
type Ask struct {
	Verb   Verb
	Caller Caller
	// Request carries the credentials of the caller.
	Request *http.Request
	// Conversation and Run are ids. What does not exist is asked about like what
	// does, so that the answers take equally long. Run is empty for [Start].
	Conversation string
	Run          string
	// Owner is who started the run; for [Start] who started the conversation's
	// newest run, and zero if it has none.
	Owner Subject
}

// Policy decides what callers may do.
type Policy interface {
	// May reports whether the caller has the right. An error wraps
	// [ErrUnavailable]: it cannot be told now.
	May(ctx context.Context, a Ask) (bool, error)
	// Shared tells that a conversation belongs to a tenant, not to one subject.
	Shared() bool
	// String names the policy as the configuration does.
	String() string
}

// OwnerPolicy lets the subject that started something do everything with it,
// and nobody else anything.
type OwnerPolicy struct{}

var _ Policy = OwnerPolicy{}

// May implements [Policy].
func (OwnerPolicy) May(_ context.Context, a Ask) (bool, error) {
	return a.Verb == Start || Owns(a.Caller.Subject, a.Owner), nil
}

// Shared implements [Policy].
func (OwnerPolicy) Shared() bool { return false }

// String implements [Policy].
func (OwnerPolicy) String() string { return "owner" }
