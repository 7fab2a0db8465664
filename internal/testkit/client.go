package testkit

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"time"
)

// SubjectHeader is the header that gateways under test take the subject from.
const SubjectHeader = "X-User"

// Client speaks to one site as one subject. Each request gets a connection of
// its own, so that dropping one answer hurts no other. A Client is a value:
// its methods that change something return a changed copy.
type Client struct {
	Base   string // scheme, host and port
	Header http.Header
	// Limit ends every request, so that an answer that never ends fails its
	// test.
	Limit time.Duration
	// HTTP2 speaks HTTP/2 without TLS.
	HTTP2 bool
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	turns *turns
}

// NewClient returns a client of the server at base.
func NewClient(base string) Client {
	return Client{Base: base, Header: http.Header{}, Limit: 5 * Patience}
}

// With returns a client that sends one more header.
func (c Client) With(name, value string) Client {
	c.Header = c.Header.Clone()
	c.Header.Set(name, value)
	return c
}

// As returns a client of another subject.
func (c Client) As(subject string) Client { return c.With(SubjectHeader, subject) }

// On returns a client whose starts reach a stage.
func (c Client) On(s *Stage) Client { return c.With(StageHeader, s.Name()) }

// Ask is one request.
type Ask struct {
	Method string // default POST with a body, else GET
	Path   string
	Body   string
	Header http.Header
}

// Chat is a start of the OpenAI chat shape in a conversation; without a
// conversation the gateway makes one.
func Chat(conversation, prompt string) Ask {
	a := Ask{
		Path: "/v1/chat/completions",
		Body: `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`,
	}
	if conversation != "" {
		a = a.With("X-Conversation-Id", conversation)
	}
	return a
}

// With returns the request with one more header.
func (a Ask) With(name, value string) Ask {
	if a.Header = a.Header.Clone(); a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set(name, value)
	return a
}

// Key returns the request with an idempotency key.
func (a Ask) Key(k string) Ask { return a.With("Idempotency-Key", k) }

// At returns the request with another path.
func (a Ask) At(path string) Ask {
	a.Path = path
	return a
}

// Do sends a request and waits for the head of its answer.
func (c Client) Do(t testing.TB, a Ask) *Answer {
	t.Helper()
	ans, err := c.Try(t, a)
	if err != nil {
		t.Fatalf("%s %s: %v", a.Method, a.Path, err)
	}
	return ans
}

// Try is [Client.Do] for a request that may fail on its way.
func (c Client) Try(t testing.TB, a Ask) (*Answer, error) {
	t.Helper()
	pending := c.Begin(t, a)
	return pending.Head()
}

// Pending is a request that is on its way.
type Pending struct {
	t     testing.TB
	leave context.CancelFunc
	conn  chan net.Conn
	send  func() (*http.Response, error)
}

// Begin prepares a request. Nothing is sent before [Pending.Head].
func (c Client) Begin(t testing.TB, a Ask) *Pending {
	t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), c.Limit)
	t.Cleanup(leave)
	p := &Pending{t: t, leave: leave, conn: make(chan net.Conn, 1)}
	req := c.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { p.conn <- i.Conn },
	}), t, a)
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: c.dial, Protocols: &http.Protocols{}}
	transport.Protocols.SetHTTP1(!c.HTTP2)
	transport.Protocols.SetUnencryptedHTTP2(c.HTTP2)
	p.send = func() (*http.Response, error) { return transport.RoundTrip(req) }
	return p
}

func (c Client) request(ctx context.Context, t testing.TB, a Ask) *http.Request {
	t.Helper()
	method := a.Method
	if method == "" {
		method = http.MethodGet
		if a.Body != "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base()+a.Path, bytes.NewReader([]byte(a.Body)))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil // nothing here is sent twice by itself
	if a.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = http.NoBody
	}
	for _, from := range []http.Header{c.Header, a.Header} {
		maps.Copy(req.Header, from)
	}
	return req
}

// Head waits for status and headers.
func (p *Pending) Head() (*Answer, error) {
	resp, err := p.send()
	if err != nil {
		p.leave()
		return nil, err
	}
	p.t.Cleanup(func() { _ = resp.Body.Close() })
	a := &Answer{t: p.t, Status: resp.StatusCode, Header: resp.Header, body: resp.Body, conn: <-p.conn, leave: p.leave, At: time.Now()}
	a.Events = NewEventReader(resp.Body)
	return a, nil
}

// Abandon closes the connection of a request whose answer has not come yet, as
// soon as it has one.
func (p *Pending) Abandon() { ResetConn(<-p.conn) }

// Resume is the request for a run's events after a cursor; an empty cursor is
// the beginning.
func Resume(run, after string) Ask {
	a := Ask{Path: "/_runs/" + run + "/events"}
	if after != "" {
		a = a.With("Last-Event-ID", after)
	}
	return a
}

// Query returns the request with a query parameter added.
func (a Ask) Query(name, value string) Ask {
	sep := "?"
	if strings.Contains(a.Path, "?") {
		sep = "&"
	}
	a.Path += sep + url.QueryEscape(name) + "=" + url.QueryEscape(value)
	return a
}

// Resume attaches to a run.
func (c Client) Resume(t testing.TB, run, after string) *Answer {
	t.Helper()
	return c.Do(t, Resume(run, after))
}

// Stop stops a run and returns its record; it waits for the outcome up to ten
// seconds.
func (c Client) Stop(t testing.TB, run string) Record {
	t.Helper()
	a := c.Do(t, Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"}.With("Prefer", "wait=10"))
	if a.Status != http.StatusOK && a.Status != http.StatusAccepted {
		t.Fatalf("Stop got status %d, want 200 or 202: %s", a.Status, a.Body())
	}
	return Decode[Record](t, a.Body())
}

// Snapshot returns a run's record with its snapshot.
func (c Client) Snapshot(t testing.TB, run string) Record {
	t.Helper()
	a := c.Do(t, Ask{Path: "/_runs/" + run})
	if a.Status != http.StatusOK {
		t.Fatalf("record got status %d, want 200: %s", a.Status, a.Body())
	}
	return Decode[Record](t, a.Body())
}

// Active asks which run a conversation has.
func (c Client) Active(t testing.TB, conversation string) Lookup {
	t.Helper()
	a := c.Do(t, Ask{Path: "/_runs/active?conversation_id=" + url.QueryEscape(conversation)})
	if a.Status != http.StatusOK {
		t.Fatalf("active look-up got status %d, want 200: %s", a.Status, a.Body())
	}
	return Decode[Lookup](t, a.Body())
}
