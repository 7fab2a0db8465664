package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// In each row the answer to a call is lost; the call is made again, and must
// have been carried out once.
func TestLostRepliesLeaveNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, s *site, l runregistry.Lease) error
	}{
		{"append", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Append(ctx, l, batch(1, "two"))
			return err
		}},
		{"append with progress", func(ctx context.Context, s *site, l runregistry.Lease) error {
			b := batch(1, "two")
			b.Progress = &runregistry.Progress{Model: "m", UpstreamID: "up"}
			_, err := s.store.Append(ctx, l, b)
			return err
		}},
		{"bind", func(ctx context.Context, s *site, l runregistry.Lease) error { return s.store.Bind(ctx, l, "alias") }},
		{"stop", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Stop(ctx, l.Run, "")
			return err
		}},
		{"renewal", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Renew(ctx, []runregistry.Lease{l})
			return err
		}},
		{"settle", func(ctx context.Context, s *site, l runregistry.Lease) error {
			_, err := s.store.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Completed})
			if errors.Is(err, runregistry.ErrSettled) {
				return nil // the first was carried out, and we are told so
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			l := s.running("c")
			s.persist(l, batch(0, "one"))
			ctx := t.Context()
			for skip := range 3 { // the answer to the look, to the change
				s.link.LoseReply(skip)
				if err := tt.do(ctx, s, l); err != nil {
					s.unavailable(tt.name, err)
				}
			}
			if s.link.Lost() == 0 {
				t.Fatal("no reply was lost")
			}
			s.link.Mend()
			if err := tt.do(ctx, s, l); err != nil {
				t.Fatalf("the last try failed: %v", err)
			}
			rec, err := s.other.Load(ctx, l.Run)
			if err != nil || rec.Cancel.Version > 1 || rec.LastSeq > 2 || rec.Bytes > 6 {
				t.Errorf("got %+v and error %v, want everything at most once", rec, err)
			}
		})
	}
}

func TestLostReplyToAnAdmissionStartsOnce(t *testing.T) {
	s := newSite(t)
	s.running("warm")
	a := admission("c")
	for skip := range 5 { // the answer to each look, to the claim
		s.link.LoseReply(skip)
		d, err := s.store.Admit(t.Context(), a)
		if err != nil {
			s.unavailable("admission", err)
			continue
		}
		d.Watch.Close()
	}
	if s.link.Lost() == 0 {
		t.Fatal("no reply was lost")
	}
	s.link.Mend()
	d, err := s.store.Admit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if d.Match != runregistry.MatchNone || d.Lease.Run != a.Run || d.Record.Delivery.Pending != 1 {
		t.Errorf("got %+v, want the run that was started first", d)
	}
	d.Watch.Close()
	_, err = s.other.Admit(t.Context(), admission("c"))
	b, ok := errors.AsType[*runregistry.BusyError](err)
	if !ok || b.Run != a.Run {
		t.Errorf("got error %v, want that %s is active", err, a.Run)
	}
}
