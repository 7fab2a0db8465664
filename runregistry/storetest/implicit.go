package storetest

import (
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

var implicitTests = []test{
	{"an equal request in the busy conversation attaches", echoInConversation},
	{"an equal request attaches whatever the policy", echoBeforePolicy},
	{"an equal request that names no conversation starts", echoUnnamed},
	{"another request in the busy conversation does not attach", echoUnequal},
	{"a request with a key repeats nothing implicitly", echoWithKey},
	{"a run that was started with a key is repeated only by its key", echoOfKeyed},
	{"a run that ends, was stopped or refused is not repeated", echoOfLost},
	{"a delivery that broke before its headers is claimed once", echoClaimsBroken},
	{"a delivery that waits or is read matches nothing", echoOfAlive},
	{"a delivery that was answered is not claimed", echoOfDelivered},
	{"a broken delivery of an ended run is claimed if it completed", echoOfEnded},
	{"a delivery broken in mid-stream is claimed only by a GET", echoMidStream},
	{"a claimed delivery that breaks again is claimed again", echoBreaksAgain},
	{"every broken delivery is claimed once", echoClaimsEach},
}

const (
	opened     = runregistry.DeliveryOpened
	done       = runregistry.DeliveryDone
	brokeEarly = runregistry.DeliveryBrokeEarly
	brokeLate  = runregistry.DeliveryBrokeLate
)

func echoInConversation(f *fixture) {
	l := f.running(in("c"), echo("hi"))
	d := f.attached(l.Run, runregistry.MatchConversation, in("c"), echo("hi"))
	want(f, "deliveries", d.Record.Delivery.Pending, 2)
	f.complete(l)
	f.start(in("c"), echo("hi"))
}

func echoBeforePolicy(f *fixture) {
	l := f.running(in("c"), echo("hi"))
	for _, b := range []runregistry.Busy{runregistry.BusyAuto, runregistry.BusyReject, runregistry.BusyReplace, runregistry.BusyAllow} {
		f.attached(l.Run, runregistry.MatchConversation, in("c"), echo("hi"), busy(b))
	}
}

func echoUnnamed(f *fixture) {
	unnamed := func(a *runregistry.Admission) { a.Conversation = "conv_generated" }
	f.start(unnamed, echo("hi"))
	err := f.refused(unnamed, echo("hi"), busy(runregistry.BusyReject))
	f.wantBusy(err)
	f.start(echo("hi"))
}

func echoUnequal(f *fixture) {
	f.start(in("c"), echo("hi"))
	f.wantBusy(f.refused(in("c"), echo("ho"), busy(runregistry.BusyReject)))
	f.wantBusy(f.refused(in("c"), busy(runregistry.BusyReject)))
	f.wantBusy(f.refused(in("c"), echo("hi"), busy(runregistry.BusyReject),
		func(a *runregistry.Admission) { a.Route = "other" }))
	f.start(by(bob), in("c"), echo("hi"))
}

func echoWithKey(f *fixture) {
	l := f.running(in("c"), echo("hi"))
	f.wantBusy(f.refused(in("c"), echo("hi"), keyed("k"), busy(runregistry.BusyReject)))
	f.complete(l)
	f.deliver(l.Run, brokeEarly)
	f.start(echo("hi"), keyed("k"))
}

func echoOfKeyed(f *fixture) {
	l := f.running(in("c"), echo("hi"), keyed("k"))
	f.wantBusy(f.refused(in("c"), echo("hi"), busy(runregistry.BusyReject)))
	f.deliver(l.Run, brokeEarly)
	f.start(echo("hi"))
}

// In none of these cases may the user get an old answer to a new question.
func echoOfLost(f *fixture) {
	refusal := runregistry.Progress{Response: &runregistry.Response{Status: 429}}
	for name, spoil := range map[string]func(runregistry.Lease){
		"stopped": func(l runregistry.Lease) { f.stop(l.Run) },
		"refused": func(l runregistry.Lease) { f.advance(l, refusal) },
		"failed":  func(l runregistry.Lease) { f.end(l, runregistry.Settlement{State: runregistry.Failed}) },
		"unsure":  func(l runregistry.Lease) { f.end(l, runregistry.Settlement{State: runregistry.Uncertain}) },
	} {
		c := runregistry.ConversationID(name)
		l := f.running(in(c), echo(name))
		f.deliver(l.Run, brokeEarly)
		spoil(l)
		f.start(in(c), echo(name), busy(runregistry.BusyAllow))
	}
	ending := f.running(in("c"), echo("hi"))
	f.advance(ending, runregistry.Progress{Ending: true})
	f.start(in("c"), echo("hi"), busy(runregistry.BusyAllow))
}

func echoClaimsBroken(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	f.start(echo("ho"))
	f.start(by(bob), echo("hi"))
	f.attached(l.Run, runregistry.MatchDelivery, echo("hi"))
	f.start(echo("hi"))
}

func echoOfAlive(f *fixture) {
	waiting := f.running(echo("hi"))
	reading := f.running(echo("hi"))
	f.deliver(reading.Run, opened)
	f.start(echo("hi"))
	f.deliver(waiting.Run, opened, done)
	f.start(echo("hi"))
}

func echoOfDelivered(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, opened, brokeLate)
	f.start(echo("hi"))
	// A later delivery of a run got its headers: the broken one is answered.
	early := f.running(echo("ho"))
	f.deliver(early.Run, brokeEarly)
	f.attached(early.Run, runregistry.MatchDelivery, echo("ho"))
	f.deliver(early.Run, opened, brokeLate)
	f.start(echo("ho"))
}

func echoOfEnded(f *fixture) {
	l := f.running(echo("hi"))
	f.deliver(l.Run, brokeEarly)
	f.complete(l)
	f.attached(l.Run, runregistry.MatchDelivery, echo("hi"))
}

func echoMidStream(f *fixture) {
	get := func(a *runregistry.Admission) { a.MidStream = true }
	l := f.running(echo("hi"))
	f.deliver(l.Run, opened, brokeLate)
	f.start(echo("hi"))
	f.attached(l.Run, runregistry.MatchDelivery, echo("hi"), get)
}

func echoBreaksAgain(f *fixture) {
	l := f.running(echo("hi"))
	for range 3 {
		f.deliver(l.Run, brokeEarly)
		f.attached(l.Run, runregistry.MatchDelivery, echo("hi"))
	}
}

func echoClaimsEach(f *fixture) {
	broken := make(map[runregistry.RunID]bool)
	for range 10 {
		broken[f.running(echo("hi")).Run] = true
	}
	for id := range broken {
		f.deliver(id, brokeEarly)
	}
	for n := len(broken); n > 0; n-- {
		d := f.admit(echo("hi"))
		if d.Match != runregistry.MatchDelivery || !broken[d.Record.ID] {
			f.Fatalf("got match %d of %s, want one of %d broken deliveries", d.Match, d.Record.ID, n)
		}
		delete(broken, d.Record.ID)
	}
	f.start(echo("hi"))
}
