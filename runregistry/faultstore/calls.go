package faultstore

import (
	"context"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Admit implements [runregistry.Admitter].
func (s *Store) Admit(ctx context.Context, a *runregistry.Admission) (*runregistry.Decision, error) {
	d, err := pass(ctx, s, Admit, func() (*runregistry.Decision, error) { return s.inner.Admit(ctx, a) })
	if err == nil {
		d.Watch = s.hearing(d.Watch)
	}
	return d, err
}

// Intend implements [runregistry.Writer].
func (s *Store) Intend(ctx context.Context, l runregistry.Lease) (*runregistry.Record, error) {
	return pass(ctx, s, Intend, func() (*runregistry.Record, error) { return s.inner.Intend(ctx, l) })
}

// Append implements [runregistry.Writer].
func (s *Store) Append(ctx context.Context, l runregistry.Lease, b *runregistry.Batch) (runregistry.Appended, error) {
	return pass(ctx, s, Append, func() (runregistry.Appended, error) { return s.inner.Append(ctx, l, b) })
}

// Bind implements [runregistry.Writer].
func (s *Store) Bind(ctx context.Context, l runregistry.Lease, alias runregistry.ConversationID) error {
	_, err := pass(ctx, s, Bind, func() (struct{}, error) { return struct{}{}, s.inner.Bind(ctx, l, alias) })
	return err
}

// Settle implements [runregistry.Writer].
func (s *Store) Settle(ctx context.Context, l runregistry.Lease, end *runregistry.Settlement) (*runregistry.Record, error) {
	return pass(ctx, s, Settle, func() (*runregistry.Record, error) { return s.inner.Settle(ctx, l, end) })
}

// Load implements [runregistry.Reader].
func (s *Store) Load(ctx context.Context, id runregistry.RunID) (*runregistry.Record, error) {
	return pass(ctx, s, Load, func() (*runregistry.Record, error) { return s.inner.Load(ctx, id) })
}

// Read implements [runregistry.Reader].
func (s *Store) Read(ctx context.Context, q runregistry.PageQuery) (runregistry.Page, error) {
	return pass(ctx, s, Read, func() (runregistry.Page, error) { return s.inner.Read(ctx, q) })
}

// Watch implements [runregistry.Reader].
func (s *Store) Watch(ctx context.Context, id runregistry.RunID, reading bool) (*runregistry.Watch, error) {
	w, err := pass(ctx, s, Watch, func() (*runregistry.Watch, error) { return s.inner.Watch(ctx, id, reading) })
	return s.hearing(w), err
}

// Current implements [runregistry.Reader].
func (s *Store) Current(ctx context.Context, scope runregistry.Scope, c runregistry.ConversationID) (*runregistry.Record, error) {
	return pass(ctx, s, Current, func() (*runregistry.Record, error) { return s.inner.Current(ctx, scope, c) })
}

// List implements [runregistry.Reader].
func (s *Store) List(ctx context.Context, q runregistry.ListQuery) (runregistry.List, error) {
	return pass(ctx, s, List, func() (runregistry.List, error) { return s.inner.List(ctx, q) })
}

// ByUpstream implements [runregistry.Reader].
func (s *Store) ByUpstream(ctx context.Context, scope runregistry.Scope, upstreamID string) (*runregistry.Record, error) {
	return pass(ctx, s, ByUpstream, func() (*runregistry.Record, error) { return s.inner.ByUpstream(ctx, scope, upstreamID) })
}

// Stop implements [runregistry.Commander].
func (s *Store) Stop(ctx context.Context, id runregistry.RunID, why runregistry.Reason) (*runregistry.Record, error) {
	return pass(ctx, s, Stop, func() (*runregistry.Record, error) { return s.inner.Stop(ctx, id, why) })
}

// Deliver implements [runregistry.Commander].
func (s *Store) Deliver(ctx context.Context, id runregistry.RunID, e runregistry.DeliveryEvent) error {
	_, err := pass(ctx, s, Deliver, func() (struct{}, error) { return struct{}{}, s.inner.Deliver(ctx, id, e) })
	return err
}

// Delete implements [runregistry.Commander].
func (s *Store) Delete(ctx context.Context, id runregistry.RunID) error {
	_, err := pass(ctx, s, Delete, func() (struct{}, error) { return struct{}{}, s.inner.Delete(ctx, id) })
	return err
}

// Readers implements [runregistry.Commander].
func (s *Store) Readers(ctx context.Context, id runregistry.RunID) (int, error) {
	return pass(ctx, s, Readers, func() (int, error) { return s.inner.Readers(ctx, id) })
}
