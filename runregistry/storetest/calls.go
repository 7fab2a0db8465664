package storetest

import (
	"context"
	"errors"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var callTests = []test{
	{"a call whose context has ended does nothing", callsLookAtContext},
}

// calls are all methods of a store, on a run that lets each of them succeed.
func (f *fixture) calls(ctx context.Context, l runregistry.Lease) map[string]error {
	errs := make(map[string]error)
	_, errs["Admit"] = f.Admit(ctx, ask(in("new")))
	_, errs["Intend"] = f.Intend(ctx, l)
	_, errs["Append"] = f.Append(ctx, l, &runregistry.Batch{Frames: raw("x")})
	errs["Bind"] = f.Bind(ctx, l, "alias")
	_, errs["Settle"] = f.Settle(ctx, l, &runregistry.Settlement{State: runregistry.Failed})
	_, errs["Load"] = f.Load(ctx, l.Run)
	_, errs["Read"] = f.Read(ctx, runregistry.PageQuery{Run: l.Run})
	_, errs["Watch"] = f.Watch(ctx, l.Run, true)
	_, errs["Current"] = f.Current(ctx, runregistry.SubjectScope(alice), "c")
	_, errs["List"] = f.List(ctx, runregistry.ListQuery{Subject: alice})
	_, errs["ByUpstream"] = f.ByUpstream(ctx, runregistry.SubjectScope(alice), "up")
	_, errs["Stop"] = f.Stop(ctx, l.Run, "")
	errs["Deliver"] = f.Deliver(ctx, l.Run, opened)
	errs["Delete"] = f.Delete(ctx, l.Run)
	_, errs["Readers"] = f.Readers(ctx, l.Run)
	return errs
}

func callsLookAtContext(f *fixture) {
	l := f.running(in("c"))
	before := f.load(l.Run)
	why := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(why)
	for call, err := range f.calls(ctx, l) {
		f.wantErr(call, err, runregistry.ErrUnavailable)
		f.wantErr(call, err, why)
	}
	want(f, "revision", f.load(l.Run).Revision, before.Revision)
	want(f, "deliveries", f.load(l.Run).Delivery, before.Delivery)
	f.wantReaders(l.Run, 0)
	f.wantUnknown("new")
	f.wantUnknown("alias")
	want(f, "runs", len(f.listAll(runregistry.ListQuery{})), 1)
}
