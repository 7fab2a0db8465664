package redisstore

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// whole is a record in which every field that the record field holds is set.
func whole() *entry {
	at := time.UnixMilli(1_800_000_000_123).UTC()
	e := &entry{claims: claims{
		key: runregistry.Digest{1}, echo: runregistry.Digest{2}, dialogue: "d", holding: true,
		limits: runregistry.LogLimits{Bytes: 5, Frames: 6},
	}}
	e.rec = runregistry.Record{
		Subject: runregistry.Subject{Realm: "r", Tenant: "t", Issuer: "i", Sub: "s"}, Scope: "scope", Conversation: "c",
		Aliases: []runregistry.ConversationID{"a", "b"}, Named: true, Route: "route", Attempt: 2, Previous: "run_p",
		Reason: runregistry.ReasonRefusal, Effect: runregistry.EffectObserved, Release: "rel", Resource: "res", Model: "m",
		Dialect: "d", Format: runregistry.FormatLines, CreatedAt: at, DispatchedAt: at.Add(1e6), ActivityAt: at.Add(2e6), EndedAt: at.Add(3e6),
		Response:   &runregistry.Response{Status: 200, Header: map[string][]string{"A": {"b", "c"}}, Stream: true, Sized: true, Kept: true},
		UpstreamID: "up", Origin: json.RawMessage(`{"p":"/x"}`), Position: "9", Reattached: 2, Lined: true, Ending: true, SnapshotSeq: 7, Fingerprint: runregistry.Digest{3},
		Cancel:    runregistry.Cancel{Version: 1, RequestedAt: at, Outcome: runregistry.AlreadyTerminal, Upstream: runregistry.Confirmed},
		Usage:     runregistry.Usage{InputTokens: 1, OutputTokens: 2, Reported: true, Complete: true},
		Retention: runregistry.Retention{Frames: 1, Record: 2, Key: 3},
	}
	return e
}

func TestRecordsSurviveTheirEncoding(t *testing.T) {
	for name, e := range map[string]*entry{"whole": whole(), "empty": {}} {
		text, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		got := &entry{}
		if err := got.decode(text); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, e)
		}
	}
}

// apart are fields of the record that have a field of the hash to themselves,
// since appends and scripts change them.
var apart = map[string]bool{
	"ID": true, "State": true, "Epoch": true, "FirstFrameAt": true, "FramesExpireAt": true, "ExpiresAt": true, "FirstSeq": true,
	"LastSeq": true, "FinalSeq": true, "Bytes": true, "Delivery": true, "Snapshot": true, "Revision": true,
	"Claims": true, // of the entry, and in no record but that which Settle returns
}

// A field that the core gains must not be forgotten here.
func TestEveryFieldOfARecordIsStored(t *testing.T) {
	v := reflect.ValueOf(whole().rec)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() != apart[name] {
			t.Errorf("%s: got it stored apart %v, want %v", name, v.Field(i).IsZero(), apart[name])
		}
	}
}

func TestRecordsThatCannotBeReadAreErrors(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"ca":"x"}`} {
		if _, err := parseEntry("run", fields{"w": "t", "b": text}, time.Now()); err == nil {
			t.Errorf("%q: got a record, want an error", text)
		}
	}
	if e, err := parseEntry("run", fields{}, time.Now()); e != nil || err != nil {
		t.Errorf("got %v and error %v for a run that is not there", e, err)
	}
}
