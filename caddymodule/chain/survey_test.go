package chain

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestSurveyFindsPlaceholders that handlers may need and a request does not
// know by itself.
func TestSurveyFindsPlaceholders(t *testing.T) {
	raw := func(text string) []json.RawMessage { return []json.RawMessage{[]byte(text)} }
	server := &caddyhttp.Server{
		Routes: caddyhttp.RouteList{
			{HandlersRaw: raw(`{"handler":"agent_runs","resource_scope":"{http.request.header.X} {scope}"}`)},
			{HandlersRaw: raw(`{"handler":"reverse_proxy","headers":{"request":{"set":{"A":["{http.auth.user.email}-{http.regexp.v.1}"],
				"B":["{http.vars.color}","{env.HOME}","{file./etc/hostname}","{http.reverse_proxy.upstream.host}","{time.now}","{}","{ x }"]}}}}`)},
		},
		NamedRoutes: map[string]*caddyhttp.Route{"app": {HandlersRaw: raw(`{"handler":"headers","x":"{shape}"}`)}},
	}
	s, err := Look(server)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http.auth.user.email", "http.auth.user.id", "http.regexp.v.1", "scope", "shape"}
	if !slices.Equal(s.Placeholders, want) {
		t.Errorf("placeholders: got %q, want %q", s.Placeholders, want)
	}
}

// TestSurveyTellsRetriesFromResends: dial errors may always be tried again,
// with a retry match also what an upstream has already seen.
func TestSurveyTellsRetriesFromResends(t *testing.T) {
	for text, want := range map[string]Survey{
		`{"handler":"reverse_proxy"}`:                                                                               {},
		`{"handler":"reverse_proxy","load_balancing":{"retries":1}}`:                                                {Retries: true},
		`{"handler":"reverse_proxy","load_balancing":{"try_duration":"5s"}}`:                                        {Retries: true},
		`{"handler":"reverse_proxy","load_balancing":{"retry_match":[{"method":["POST"]}]}}`:                        {},
		`{"handler":"reverse_proxy","load_balancing":{"retries":1,"retry_match":[{"method":["POST"]}]}}`:            {Retries: true, Resends: true},
		`{"handler":"reverse_proxy","load_balancing":"nonsense"}`:                                                   {},
		`{"handler":"subroute","routes":[{"handle":[{"handler":"reverse_proxy","load_balancing":{"retries":1}}]}]}`: {Retries: true},
	} {
		s, err := Look(&caddyhttp.Server{Routes: caddyhttp.RouteList{
			{HandlersRaw: []json.RawMessage{[]byte(`{"handler":"agent_runs"}`), []byte(text)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if s.Retries != want.Retries || s.Resends != want.Resends {
			t.Errorf("survey of %s: got %+v, want retries %t and resends %t", text, s, want.Retries, want.Resends)
		}
	}
}

// TestSurveyWithoutAServer, as in a handler that is loaded by itself.
func TestSurveyWithoutAServer(t *testing.T) {
	s, err := Look(nil)
	if err != nil || !slices.Equal(s.Placeholders, []string{authUser}) {
		t.Errorf("survey of no server: got %+v, %v, want only the user's placeholder", s, err)
	}
}
