package dialect

import "testing"

func TestPatternsMatchTheEndOfPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/v1/messages", "/v1/messages", true},
		{"/v1/messages", "/proxy/v1/messages/", true},
		{"/v1/messages", "/xv1/messages", false},
		{"/v1/messages", "/messages", false},
		{"/v1/messages", "/v1/messages/batches", false},
		{"/v1/messages", "/v1/messages//", false},
		{"/agent/*/run", "/a/agent/b/run", true},
		{"/agent/*/run", "/agent//run", false},
		{"/agent/*/run", "/agent/run", false},
		{"/*:cancel", "/v1/tasks/t:cancel", true},
		{"/*:cancel", "/v1/tasks/t:cancel/x", false},
		{"/*:cancel", "/v1/tasks/cancel", false},
		{"^/responses", "/responses", true},
		{"^/responses", "/responses/", true},
		{"^/responses", "/v1/responses", false},
		{"/cancel", "", false},
		{"/cancel", "/", false},
	} {
		if got := matchTail(tt.pattern, tt.path); got != tt.want {
			t.Errorf("%s on %s: got %v, want %v", tt.pattern, tt.path, got, tt.want)
		}
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s           string
		limit, want int
	}{
		{"abc", 5, 3},
		{"abc", 2, 2},
		{"aéb", 2, 1},
		{"a\U0001F44Bb", 4, 1},
		{"a\U0001F44Bb", 5, 5},
		{"\x80\x80\x80\x80\x80\x80", 5, 5}, // no character begins anywhere
		{"é", 1, 0},
		{"é", 0, 0},
	} {
		if got := boundary(tt.s, tt.limit); got != tt.want {
			t.Errorf("%q at %d: got %d, want %d", tt.s, tt.limit, got, tt.want)
		}
	}
}
