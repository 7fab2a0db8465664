package proxy

import (
	"io"
	"log/slog"
	"maps"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// passThrough hands a request on that is no business of ours: unrecorded,
// without a status, field or cookie of ours. Two things are looked at when the
// answer begins: whether it is a page load that a session may begin with, and
// whether it is a stream that the operator may have wanted to be a run.
func (h *Handler) passThrough(w http.ResponseWriter, r *http.Request, next Next) error {
	sent := h.withoutOurs(r)
	if isUpgrade(r) {
		return next(w, r)
	}
	return next(&passWriter{ResponseWriter: w, h: h, r: sent}, r)
}

// withoutOurs takes our own cookie off a request that is about to leave for
// upstream, and returns the request as it was sent.
func (h *Handler) withoutOurs(r *http.Request) (sent *http.Request) {
	if len(r.Header["Cookie"]) == 0 {
		return r
	}
	sent = r.WithContext(r.Context()) // a shallow copy, which keeps the header
	r.Header = maps.Clone(r.Header)
	h.stripIdentity(r.Header)
	return sent
}

// passWriter looks at the head of an answer on its way through.
type passWriter struct {
	http.ResponseWriter
	h      *Handler
	r      *http.Request
	looked bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *passWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.look(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *passWriter) Write(b []byte) (int, error) {
	w.look(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom], so that the server can still send files
// without copying them.
func (w *passWriter) ReadFrom(src io.Reader) (int64, error) {
	w.look(http.StatusOK)
	return io.Copy(w.ResponseWriter, src)
}

// Unwrap lets [http.ResponseController] reach the server's writer.
func (w *passWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *passWriter) look(status int) {
	if w.looked {
		return
	}
	w.looked = true
	contentType := w.Header().Get("Content-Type")
	if starter, ok := w.h.deps.Identity.(authz.Starter); ok {
		if cookie := starter.PageLoad(w.r, status, w.Header()); cookie != nil {
			http.SetCookie(w.ResponseWriter, cookie)
		}
	}
	if _, stream := frame.KindOf(contentType); stream {
		w.h.hintStart(w.r)
	}
}

// hintStart logs, once per path, the start line that would make a stream a
// run.
func (h *Handler) hintStart(r *http.Request) {
	path := r.URL.Path
	if !h.hinted.add(path) {
		return
	}
	h.deps.Log.Info("a request was answered by a stream but is no start; add a start line to make it a run",
		slog.String("start_line", "start "+r.Method+" "+path))
}

var (
	_ http.ResponseWriter = (*passWriter)(nil)
	_ io.ReaderFrom       = (*passWriter)(nil)
)
