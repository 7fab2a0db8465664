package caddymodule

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// withoutMatchers clears what reflect.DeepEqual cannot compare.
func withoutMatchers(c proxy.Config) proxy.Config {
	c.Match, c.StartMatch = nil, nil
	return c
}

// TestBareDirectiveHasTheDefaults.
func TestBareDirectiveHasTheDefaults(t *testing.T) {
	if got, want := withoutMatchers(new(Handler).config()), proxy.DefaultConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("configuration of a bare directive: got %+v, want %+v", got, want)
	}
}

// TestEveryOptionReachesTheEngine under its own name.
func TestEveryOptionReachesTheEngine(t *testing.T) {
	second := func(n int) caddy.Duration { return caddy.Duration(time.Duration(n) * time.Second) }
	off := caddy.Duration(0)
	h := &Handler{
		Realm: "realm", Name: "name", API: "/api", Dialect: "generic", ConversationBusy: "replace", QueueTimeout: 3,
		Start:        []Start{{Paths: []string{"/a"}}, {Methods: []string{"GET", "PUT"}, Paths: []string{"/b", "/c/*"}}},
		ResumePath:   []string{"/chats/{conversation_id}"},
		Conversation: []Conversation{{In: "query", Name: "q"}}, ReplayHeaders: []string{"X-Model"},
		ImplicitRetry: &off, Idempotency: &Idempotency{Window: second(1), Forward: true, Required: true, OnRunning: "conflict"},
		OnDisconnect: &OnDisconnect{Action: "cancel", After: second(2)}, CancelDeadline: second(3), Deadline: second(4),
		ResponseHeaderTimeout: second(5), StreamIdleTimeout: second(6), FrameIdleTimeout: second(7), Keepalive: &off,
		EarlyHeaders: second(8), SideEffects: "none", AgentRelease: "release", ResourceScope: "scope",
		Limits: &Limits{ActiveRunsPerSubject: 1, ReadersPerRun: 2, RequestBody: 3, Frame: 4, RunBytes: 5, RunFrames: 6},
		Guard:  &Guard{Roles: []string{"user"}, Models: []string{"m"}, Deny: []string{"d"}, Set: map[string]json.RawMessage{"b": json.RawMessage("2"), "a": json.RawMessage("1")}, URLs: "none"},
		CORS:   []string{"https://a.example"},
		app:    &App{FrameRetention: second(9), RecordRetention: second(10)},
	}
	want := proxy.DefaultConfig()
	want.Realm, want.Name, want.API, want.Dialect, want.Busy = "realm", "name", "/api", "generic", runregistry.BusyReplace
	want.QueueTimeout = 3
	want.Starts = []proxy.StartPattern{
		{Method: http.MethodPost, Path: "/a"},
		{Method: http.MethodGet, Path: "/b"},
		{Method: http.MethodGet, Path: "/c/*"},
		{Method: http.MethodPut, Path: "/b"},
		{Method: http.MethodPut, Path: "/c/*"},
	}
	want.ResumeAuto, want.ResumePaths = false, []string{"/chats/{conversation_id}"}
	want.Conversation, want.ReplayHeaders = []proxy.Source{{In: "query", Name: "q"}}, []string{"X-Model"}
	want.ImplicitRetry, want.Keepalive = 0, 0
	want.Idempotency = proxy.Idempotency{Window: time.Second, Forward: true, Required: true, Conflict: true}
	want.DisconnectCancel, want.DisconnectAfter = true, 2*time.Second
	want.CancelDeadline, want.Deadline, want.HeaderTimeout = 3*time.Second, 4*time.Second, 5*time.Second
	want.StreamIdle, want.FrameIdle, want.EarlyHeaders = 6*time.Second, 7*time.Second, 8*time.Second
	want.NoSideEffects, want.Release, want.Resource = true, "release", "scope"
	want.Limits = proxy.Limits{ActiveRunsPerSubject: 1, ReadersPerRun: 2, RequestBody: 3, Frame: 4, RunBytes: 5, RunFrames: 6}
	want.Guard = proxy.Guard{Roles: []string{"user"}, Models: []string{"m"}, Deny: []string{"d"}, Set: []proxy.Fixed{{Path: "a", Value: "1"}, {Path: "b", Value: "2"}}, NoURLs: true}
	want.CORS = []string{"https://a.example"}
	want.FrameRetention, want.RecordRetention = 9*time.Second, 10*time.Second
	if got := withoutMatchers(h.config()); !reflect.DeepEqual(got, want) {
		t.Errorf("configuration: got\n%+v\nwant\n%+v", got, want)
	}
}

// TestResumePathsCombine: templates replace auto unless it is named too.
func TestResumePathsCombine(t *testing.T) {
	for _, c := range []struct {
		option, paths []string
		auto          bool
	}{
		{nil, nil, true},
		{[]string{"auto"}, nil, true},
		{[]string{"off"}, nil, false},
		{[]string{"/a/{conversation_id}"}, []string{"/a/{conversation_id}"}, false},
		{[]string{"/a/{conversation_id}", "auto"}, []string{"/a/{conversation_id}"}, true},
	} {
		got := (&Handler{ResumePath: c.option}).config()
		if got.ResumeAuto != c.auto || !slices.Equal(got.ResumePaths, c.paths) {
			t.Errorf("resume_path %v: got auto %t and %v, want %t and %v", c.option, got.ResumeAuto, got.ResumePaths, c.auto, c.paths)
		}
	}
}

// TestSmallerRunsHaveSmallerFrames: the default for a frame gives way.
func TestSmallerRunsHaveSmallerFrames(t *testing.T) {
	if got := (&Handler{Limits: &Limits{RunBytes: 1 << 20}}).config().Limits.Frame; got != 1<<20 {
		t.Errorf("frame in a run of 1 MiB: got %d, want %d", got, 1<<20)
	}
}
