package caddymodule

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// closing is a handler that tells when the server around it has closed its
// listeners. A reload returns earlier, and net/http drops requests of
// connections that the old server accepts in between.
type closing struct{ closed chan struct{} }

// newestClosing is that of the configuration that was provisioned last.
var newestClosing *closing

func (*closing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_closing", New: func() caddy.Module { return new(closing) }}
}

func (c *closing) Provision(ctx caddy.Context) error {
	c.closed = make(chan struct{})
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return errors.New("no server around the handler")
	}
	server.RegisterOnShutdown(func() { close(c.closed) })
	newestClosing = c
	return nil
}

func (*closing) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// wait returns when the listeners are closed.
func (c *closing) wait(t *testing.T) {
	t.Helper()
	select {
	case <-c.closed:
	case <-time.After(patience):
		t.Fatalf("listeners of the configuration before: open after %v, want closed", patience)
	}
}

// withClosing puts the handler in front of every route of a configuration.
func withClosing(t *testing.T, config []byte) []byte {
	t.Helper()
	var c struct {
		Apps map[string]json.RawMessage `json:"apps"`
		Rest map[string]json.RawMessage `json:"-"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(config, &c.Rest); err != nil {
		t.Fatal(err)
	}
	var app caddyhttp.App
	if err := json.Unmarshal(c.Apps["http"], &app); err != nil {
		t.Fatal(err)
	}
	for _, srv := range app.Servers {
		srv.Routes = append(caddyhttp.RouteList{{HandlersRaw: []json.RawMessage{[]byte(`{"handler":"test_closing"}`)}}}, srv.Routes...)
	}
	c.Apps["http"] = encode(t, app)
	c.Rest["apps"] = encode(t, c.Apps)
	return encode(t, c.Rest)
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
