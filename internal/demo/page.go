package demo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed web
var files embed.FS

// policy allows the page itself and nothing else: no inline script or style,
// no other origin, no framing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mediaTypes are spelled out because the tables of operating systems differ.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// page serves the embedded files.
func page() http.Handler {
	root, err := fs.Sub(files, "web")
	if err != nil {
		panic(err) // the name is a constant
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")
		body, err := fs.ReadFile(root, name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		serveFile(w, r, name, body)
	})
}

// serveFile answers with a validator and no-cache: embedded files have no
// modification time, and a new build must be seen at once.
func serveFile(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Content-Type", mediaTypes[path.Ext(name)])
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
