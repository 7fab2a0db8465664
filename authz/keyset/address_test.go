package keyset_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz/keyset"
)

// Promise 7.
func TestURLsOfKeySets(t *testing.T) {
	for url, wrong := range map[string]string{
		"https://login.example/keys":       "",
		"https://login.example:8443/k?a=b": "",
		"http://localhost:8080/keys":       "",
		"http://127.0.0.1/keys":            "",
		"http://[::1]:1/keys":              "",
		"http://login.example/keys":        `found scheme "http" and host "login.example"`,
		"http://localhost.example/keys":    `host "localhost.example"`,
		"http://10.0.0.1/keys":             `host "10.0.0.1"`,
		"ftp://login.example/keys":         `scheme "ftp"`,
		"https://u:secret@login.example/k": "user information",
		"https:///keys":                    "no URL with a host",
		"/keys.json":                       "no URL with a host",
		"https://login.example:x/":         "no URL with a host",
	} {
		err := keyset.CheckURL(url)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: got %v, want %q", url, err, wrong)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want no password in it", url, err)
		}
	}
}

// Promise 7, over a network. What an issuer answers wrongly is no key set, and
// what is logged about it tells where, not what the query of the URL says.
func TestRemoteTakesOnlyKeySetsOfItsHost(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(set("a")))
	}))
	defer elsewhere.Close()
	answers := map[string]http.HandlerFunc{
		"good":               func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(set("a"))) },
		"redirect to itself": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) },
		"redirect elsewhere": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"redirect for ever":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"status 500":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"status 201": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.Write([]byte(set("a")))
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(set("a") + strings.Repeat(" ", 1<<20))) },
		"a page":   func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			w.Write([]byte("{"))
		},
		"gone without a sound": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/good" {
				answer = answers["good"]
			}
			answer(w, r)
		}))
		var log bytes.Buffer
		s, err := keyset.NewRemote(server.URL+"/keys?key=s3cr3t", nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Lookup(t.Context(), "a", "EdDSA")
		s.Close() // before the log is read
		good := name == "good" || name == "redirect to itself"
		if good != (err == nil) || !good && !errors.Is(err, keyset.ErrUnavailable) {
			t.Errorf("%s: got %v, want a key: %t", name, err, good)
		}
		if text := log.String(); good != (text == "") || strings.Contains(text, "s3cr3t") || !good && !strings.Contains(text, server.URL+"/keys") {
			t.Errorf("%s: got log %q, want the address in it without its query", name, text)
		}
		server.Close()
	}
}

// fileWith returns a key set in a file.
func fileWith(t *testing.T, text string) *keyset.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := keyset.NewFile(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileFollowsItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "keys.json")
		write := func(text string) {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		write(set("a"))
		var log bytes.Buffer
		f, err := keyset.NewFile(name, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		wantFound(t, f, "a")
		write(set("b"))
		wantFound(t, f, "b")
		wantErr(t, f, "a", keyset.ErrUnknownKey)
		write("{")
		wantFound(t, f, "b")
		time.Sleep(time.Minute)
		wantFound(t, f, "b")
		if got := strings.Count(log.String(), "\n"); got != 1 {
			t.Errorf("complaints about a broken file: got %d in %s, want 1", got, log.String())
		}
		write(set("a"))
		wantFound(t, f, "a")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantFound(t, f, "a")
	})
}

func TestFileMustBeThereAtFirst(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{broken, filepath.Join(dir, "absent.json"), dir} {
		if _, err := keyset.NewFile(name, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}
