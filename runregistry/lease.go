package runregistry

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// InstanceID names one gateway process for as long as it lives. A process that
// restarts is another instance.
type InstanceID string

// NewInstanceID draws a name.
func NewInstanceID() InstanceID { return InstanceID(rand.Text()) }

// ErrLeaseLive means that a run cannot be taken over: its owner's lease has not
// expired by the store's clock.
var ErrLeaseLive = errors.New("lease is live")

// Leaser is implemented by stores that several instances share. In a store
// without it all runs belong to one process, and leases never expire.
//
// A lease is the right of one instance to write a run. Until somebody takes the
// run over, the owner's writes succeed even past the deadline: after an outage
// of the store owners renew before reapers reap.
type Leaser interface {
	Noter
	// Hold tells the store on whose behalf this process writes and for how long
	// a lease lasts from each renewal on. It is called once, before the first
	// admission.
	Hold(by InstanceID, lease time.Duration)
	// Renew extends leases and reports on each, in their order. The error is
	// [ErrUnavailable] when the store could not be asked about any; what it says
	// about one lease stands in its [Renewal].
	Renew(ctx context.Context, leases []Lease) ([]Renewal, error)
	// Expired returns runs whose lease has expired by the store's clock. Where
	// the store did not answer, or may have forgotten renewals (a failover, a
	// restart), it returns none until owners had a whole lease to renew first. It
	// is to be called several times in a lease.
	Expired(ctx context.Context, limit int) ([]RunID, error)
	// TakeOver makes this process the owner of a run whose lease has expired:
	// epoch + 1. Errors: [ErrLeaseLive], [ErrSettled], [ErrNoRun].
	TakeOver(ctx context.Context, id RunID) (Lease, *Record, error)
	// Release gives a lease back: whoever asks may take the run over from now on.
	// Errors as in [Renewal].
	Release(ctx context.Context, l Lease) error
	// Orders delivers the runs of this process that were asked to stop, by
	// whichever instance, until ctx ends. An order may be lost: every append and
	// renewal tells it again.
	Orders(ctx context.Context) <-chan RunID
	// Restore writes a run again that a store which came back without its data
	// no longer knows: record, claims and the frames of the owner's window, in
	// one step, if the claims are still free and the run was not deleted within
	// the last hour. Otherwise it returns [ErrTaken]. A run that is there under
	// this lease is left as it is, so that Restore may be called again when its
	// answer was lost.
	//
	// A run that has ended, as Settle returned it, is written as it ended. It is
	// in nobody's way: of its claims it gets those that are free, and never what
	// only an active run holds. One whose retention is over is [ErrNoRun].
	Restore(ctx context.Context, l Lease, r *Record, window *Batch) error
}

// Renewal is what became of one lease.
type Renewal struct {
	// Err is [ErrFenced] when another instance took the run over, [ErrNoRun]
	// when the store does not know it, [ErrSettled] when it has ended,
	// [ErrUnavailable] when the store could not be asked about it.
	Err error
	// Stopping tells that Stop was asked for.
	Stopping bool
	// Readers is the number of readers on all instances.
	Readers int
	// Last is the newest stored frame: less than the owner stored before means
	// that the store lost its tail.
	Last Seq
	// Revision is as in [Appended].
	Revision uint64
}
