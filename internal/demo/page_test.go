package demo

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

// pageFiles are the names of everything the page is made of.
func pageFiles(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(files, "web/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("listing the page: got %v, %v, want its files", names, err)
	}
	return names
}

func TestPageIsServedWithItsTypesAndUnderItsPolicy(t *testing.T) {
	for target, want := range map[string]string{
		"/":           "text/html; charset=utf-8",
		"/index.html": "text/html; charset=utf-8",
		"/app.js":     "text/javascript; charset=utf-8",
		"/sse.js":     "text/javascript; charset=utf-8",
		"/style.css":  "text/css; charset=utf-8",
		"/icon.svg":   "image/svg+xml",
	} {
		w := get(t, target)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: got %d with %d bytes, want 200 with a body", target, w.Code, w.Body.Len())
		}
		h := w.Header()
		if got := h.Get("Content-Type"); got != want {
			t.Errorf("%s: got content type %q, want %q", target, got, want)
		}
		if got := h.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: got policy %q, want %q", target, got, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: got headers %v, want nosniff and no-cache", target, h)
		}
	}
}

func TestEveryFileOfThePageHasAType(t *testing.T) {
	for _, name := range pageFiles(t) {
		if mediaTypes[path.Ext(name)] == "" {
			t.Errorf("%s: got no media type for it", name)
		}
	}
}

func TestUnchangedFileIsNotSentAgain(t *testing.T) {
	tag := get(t, "/app.js").Header().Get("ETag")
	if w := get(t, "/app.js", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("got %d with %d bytes for ETag %s, want 304 without a body", w.Code, w.Body.Len(), tag)
	}
}

func TestWhatIsNoFileOfThePageIsNotFound(t *testing.T) {
	for _, target := range []string{"/favicon.ico", "/web", "/web/app.js", "/demo.go", "/../demo.go", "/%2e%2e/demo.go", "/app.js/", "/.", "/v1/models"} {
		if w := get(t, target); w.Code != http.StatusNotFound && w.Code != http.StatusTemporaryRedirect {
			t.Errorf("%s: got %d, want it not found", target, w.Code)
		}
	}
}

// Promise 5.
func TestPageIsCompleteAndNeedsNothingFromElsewhere(t *testing.T) {
	links := regexp.MustCompile(`(?:src|href)="([^"#][^"]*)"|from "([^"]+)"|url\(([^)]+)\)`)
	for _, name := range pageFiles(t) {
		body, err := files.ReadFile(name)
		if err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
		for _, m := range links.FindAllStringSubmatch(string(body), -1) {
			target := m[1] + m[2] + m[3]
			if strings.Contains(target, "//") {
				t.Errorf("%s: got %q, want nothing from another origin", name, target)
			}
			if target == "/#" {
				continue // the page itself
			}
			if w := get(t, "/"+strings.TrimPrefix(target, "./")); w.Code != http.StatusOK {
				t.Errorf("%s: got %d for %q, want it served", name, w.Code, target)
			}
		}
	}
}

// Promise 5.
func TestPageRunsUnderAStrictPolicy(t *testing.T) {
	index := get(t, "/").Body.String()
	for name, forbidden := range map[string]string{
		"an inline script":  `<script(?:\s+type="module")?>`,
		"an inline style":   `<style|\sstyle="`,
		"an inline handler": `\son[a-z]+="`,
	} {
		if got := regexp.MustCompile(forbidden).FindString(index); got != "" {
			t.Errorf("got %s (%q), want none", name, got)
		}
	}
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("got policy %q, want %s in it", policy, directive)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("got policy %q, want nothing unsafe in it", policy)
	}
}

func TestScriptsFindEveryElementTheyAskFor(t *testing.T) {
	index := get(t, "/").Body.String()
	asked := regexp.MustCompile(`(?:\$|text|replace)\("([a-z-]+)"`)
	found := 0
	for _, name := range []string{"/app.js", "/view.js"} {
		for _, m := range asked.FindAllStringSubmatch(get(t, name).Body.String(), -1) {
			found++
			if !strings.Contains(index, ` id="`+m[1]+`"`) {
				t.Errorf("%s: got no element %q in the page", name, m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("got %d elements asked for, want the pattern to find them", found)
	}
}
