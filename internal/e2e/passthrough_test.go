package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// TestOrdinaryTrafficPassesUntouched compares, request by request, what comes
// of an ordinary site behind plain reverse_proxy and behind agent_runs: the
// answer, and what the site itself saw.
func TestOrdinaryTrafficPassesUntouched(t *testing.T) {
	t.Parallel()
	backend := newOrdinarySite(t)
	to := backend.Listener.Addr().String()
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{
		"plain": "reverse_proxy " + to,
		"runs":  testkit.Bare(to), // as a bare directive would be, with its session cookie
	}})
	form := func(contentType, body string) testkit.Ask {
		return testkit.Ask{Path: "/form", Body: body}.With("Content-Type", contentType)
	}
	for name, ask := range map[string]testkit.Ask{
		"page":               {Path: "/"},
		"script":             testkit.Ask{Path: "/app.js"}.With("Accept", "*/*"),
		"HEAD":               {Method: http.MethodHead, Path: "/"},
		"OPTIONS":            testkit.Ask{Method: http.MethodOptions, Path: "/login"}.With("Origin", "http://other.test").With("Access-Control-Request-Method", "POST"),
		"JSON login":         {Path: "/login", Body: `{"user":"ann","password":"secret"}`},
		"form":               form("application/x-www-form-urlencoded", "a=1&b=2&messages=x"),
		"multipart upload":   form("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"+strings.Repeat("y", 20<<20)+"\r\n--b--\r\n"),
		"webhook":            {Path: "/hook", Body: webhook(1000)},
		"large webhook":      {Path: "/hook", Body: webhook(12 << 20)},
		"broken JSON":        {Path: "/hook", Body: `{"stream":true,`},
		"JSON of no object":  {Path: "/hook", Body: `["messages"]`},
		"PUT":                {Method: http.MethodPut, Path: "/item", Body: `{"stream":true,"messages":[]}`},
		"PATCH":              {Method: http.MethodPatch, Path: "/item", Body: `{"messages":[]}`},
		"DELETE":             {Method: http.MethodDelete, Path: "/item"},
		"download":           {Path: "/file"},
		"range":              testkit.Ask{Path: "/file"}.With("Range", "bytes=5-20"),
		"several ranges":     testkit.Ask{Path: "/file"}.With("Range", "bytes=0-1,9-10"),
		"not modified":       testkit.Ask{Path: "/file"}.With("If-Modified-Since", "Tue, 14 Nov 2023 22:13:20 GMT"),
		"redirect":           {Path: "/gone"},
		"no content":         {Path: "/empty"},
		"denied":             {Path: "/denied"},
		"foreign stream id":  testkit.Ask{Path: "/"}.With("Last-Event-ID", "42"),
		"idempotent payment": testkit.Ask{Path: "/hook", Body: webhook(10)}.Key("pay-1"),
	} {
		t.Run(name, func(t *testing.T) {
			want, wantSeen := visit(t, backend, g.Client("plain"), ask)
			got, gotSeen := visit(t, backend, g.Client("runs"), ask)
			if got != want {
				t.Errorf("got answer %s\nwant %s", got, want)
			}
			if gotSeen != wantSeen {
				t.Errorf("the site saw %s\nwant %s", gotSeen, wantSeen)
			}
		})
	}
	runs := g.Client("runs").With("Authorization", "Bearer a")
	if got := string(runs.Do(t, testkit.Ask{Path: "/_runs"}).Want(200).Body()); !strings.Contains(got, `"runs":[]`) {
		t.Errorf("after all that there are runs: %s", got)
	}
}

// visit sends a request and describes the answer and what the site saw of it,
// without what differs from one request to the next.
func visit(t *testing.T, site *ordinarySite, c testkit.Client, ask testkit.Ask) (answer, seen string) {
	t.Helper()
	a := c.Do(t, ask)
	body := a.Body()
	kind := a.Header.Get("Content-Type")
	if boundary, ok := strings.CutPrefix(kind, "multipart/byteranges; boundary="); ok {
		body = bytes.ReplaceAll(body, []byte(boundary), []byte("b"))
		a.Header.Set("Content-Type", "multipart/byteranges")
		a.Header.Del("Content-Length")
	}
	a.Header.Del("Date")
	r := site.last()
	r.Header.Del("X-Forwarded-Host") // the port
	return fmt.Sprintf("%d %s %d bytes %.100q", a.Status, headerLines(a.Header), len(body), body),
		fmt.Sprintf("%s %s %s chunked=%v %d bytes %s", r.Method, r.URI, headerLines(r.Header), r.Chunked, r.Length, r.Digest)
}

func headerLines(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, "%s: %q\n", name, h[name])
	}
	return b.String()
}

// TestAPageLoadGetsTheSessionCookie is the one exception: a browser's first
// page load makes it somebody.
func TestAPageLoadGetsTheSessionCookie(t *testing.T) {
	t.Parallel()
	backend := newOrdinarySite(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(backend.Listener.Addr().String())}})
	c := g.Client("")
	first := c.Do(t, testkit.Ask{Path: "/"}.With("Sec-Fetch-Mode", "navigate").With("Sec-Fetch-Site", "none")).Want(200)
	cookie := first.Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("got cookie %q, want one that is HttpOnly and SameSite=Lax", cookie)
	}
	for name, ask := range map[string]testkit.Ask{
		"fetch of a page":        testkit.Ask{Path: "/"}.With("Sec-Fetch-Mode", "cors"),
		"navigation to download": testkit.Ask{Path: "/file"}.With("Sec-Fetch-Mode", "navigate"),
		"page not found":         testkit.Ask{Path: "/denied"}.With("Sec-Fetch-Mode", "navigate"),
	} {
		a := c.Do(t, ask)
		if got := a.Header.Get("Set-Cookie"); got != "" {
			t.Errorf("%s: got cookie %q, want none", name, got)
		}
	}
	pair, _, _ := strings.Cut(cookie, ";")
	c.Do(t, testkit.Ask{Path: "/"}.With("Cookie", pair+"; own=1")).Want(200)
	if got := backend.last().Header.Get("Cookie"); got != "own=1" {
		t.Errorf("the site got cookies %q, want its own alone", got)
	}
}

// TestASocketPassesThrough upgrades a connection and talks both ways.
func TestASocketPassesThrough(t *testing.T) {
	t.Parallel()
	backend := newOrdinarySite(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Bare(backend.Listener.Addr().String())}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Run-Id") != "" {
		t.Fatalf("got status %d and run %q, want 101 and no run", resp.StatusCode, resp.Header.Get("X-Run-Id"))
	}
	for _, word := range []string{"hello\n", "again\n"} {
		fmt.Fprint(conn, word)
		if got, err := in.ReadString('\n'); err != nil || got != strings.ToUpper(word) {
			t.Errorf("got %q and %v, want %q", got, err, strings.ToUpper(word))
		}
	}
	// A server that stops while it still knows the connection says goodbye on
	// it, which races with the copying inside Caddy.
	_ = conn.Close()
	testkit.Eventually(t, "the end of the connection", func() bool { return len(g.Log.Accesses("/socket")) == 1 })
}

// TestARemoteCallPassesThrough talks gRPC's wire form over HTTP/2: messages go
// both ways before either side is done, and the trailers arrive. It also shows
// that nothing waits for the whole body.
func TestARemoteCallPassesThrough(t *testing.T) {
	t.Parallel()
	backend := newOrdinarySite(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{
		"": testkit.Bare("h2c://" + backend.Listener.Addr().String()),
	}})
	body, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL("")+"/grpc.Service/Method", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Run-Id") != "" || resp.ProtoMajor != 2 {
		t.Errorf("got run %q over %s, want none over HTTP/2", resp.Header.Get("X-Run-Id"), resp.Proto)
	}
	answer := make([]byte, 5)
	for _, message := range []string{"\x00one.", "\x00two."} {
		if _, err := io.WriteString(out, message); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, answer); err != nil || string(answer) != message {
			t.Errorf("got %q and %v, want %q back at once", answer, err, message)
		}
	}
	_ = out.Close() // the client's half is done
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if got := resp.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("got trailer Grpc-Status %q, want 0", got)
	}
}
