package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// canary is in everything that nobody but its owner may see.
const canary = "c4n4ry"

// secretSite is a gateway whose operator, users and backend have secrets, with
// every kind of telemetry turned on.
type secretSite struct {
	*testkit.Gateway
	t        *testing.T
	redis    *testkit.Redis
	upstream *testkit.Upstream
	// hidden are secrets that the gateway itself made, which no canary is in.
	hidden []string
}

// The sites of it.
const (
	siteCookie = "cookie" // sessions, bound to a cookie of the application
	siteToken  = "token"  // tokens of an issuer
	siteNobody = "nobody" // a backend that is not there
)

const canaryKey = canary + "-signing-key-0123456789abcdef-0123456789abcdef"

func newSecretSite(t *testing.T) *secretSite {
	t.Helper()
	const password = canary + "-redis-password"
	s := &secretSite{t: t, upstream: testkit.NewUpstream(t)}
	s.redis = testkit.StartRedis(t, "requirepass "+password)
	s.redis.Password = password
	for name, value := range map[string]string{
		"CANARY_PASSWORD": password, "CANARY_KEY": canaryKey, "CANARY_SECRET": canary + "-session-secret-0123456789abcdef",
		"OTEL_TRACES_EXPORTER": "console", // into the log that is searched
	} {
		t.Setenv(name, value)
	}
	const common = "start POST /v1/chat/completions\nkeepalive off\nticket 5m\nlimits {\nframe 8KiB\nrequest_body 16KiB\n}"
	const session = "identity session {\nsecret {env.CANARY_SECRET}\nbind cookie sid\n}"
	dead, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.Gateway = testkit.Start(t, testkit.Setup{
		Global:  "store redis redis://:{env.CANARY_PASSWORD}@" + s.redis.Addr(),
		Options: "metrics\nlog {\noutput stderr\nformat json\nlevel DEBUG\n}",
		Sites: map[string]string{
			siteCookie: "tracing\n" + testkit.Bare(s.upstream.Addr(), session, common),
			siteToken: "tracing\n" + testkit.Bare(s.upstream.Addr(), common, "identity jwt {\nissuer "+issuer+"\naudience chat\n"+
				"key HS256 {env.CANARY_KEY}\ncookie access\nquery access_token\n}"),
			siteNobody: "tracing\n" + testkit.Bare("127.0.0.1:"+itoa(dead), session, common),
		},
	})
	return s
}

// issuer signs the tokens of these tests.
const issuer = "https://issuer.example"

// signed is a token of a user.
func signed(t *testing.T, sub, key string, after time.Duration) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": "chat", "sub": sub, "exp": time.Now().Add(after).Unix(), "jti": canary,
	}).SignedString([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// script is a client that shows a credential, and more than one needs.
func (s *secretSite) script(site, name string) testkit.Client {
	return s.Client(site).With("Authorization", "Bearer "+canary+"-bearer-"+name).
		With("X-Api-Key", canary+"-api-key").With("Cookie", "sid="+canary+"-sid-"+name)
}

// refused asks for what must be refused, and wants none of the secrets in the
// refusal, not even one that the request holds.
func refused(t *testing.T, c testkit.Client, a testkit.Ask, status int) {
	t.Helper()
	got := c.Do(t, a).Want(status)
	seen := string(got.Body())
	for name, values := range got.Header {
		seen += "\n" + name + ": " + strings.Join(values, ", ")
	}
	if strings.Contains(seen, canary) {
		t.Errorf("%s %.60s: got a secret in the refusal:\n%s", a.Method, a.Path, seen)
	}
}

// said is an answer of the OpenAI shape with a text.
func said(text string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const saidAll = "data: [DONE]\n\n"

// wholeLife is a run that is started, repeated, resumed, looked up and read by
// a ticket, and then asked for by others.
func (s *secretSite) wholeLife(owner, other testkit.Client) {
	t := s.t
	stage := s.upstream.Stage(testkit.SSE(said(canary+"-answer"), saidAll))
	owner, other = owner.On(stage), other.On(stage)
	start := testkit.Chat("conv-1", canary+"-prompt").Key(canary + "-key")
	first := owner.Do(t, start).Want(http.StatusOK)
	first.Rest()
	run := first.Run()
	owner.Do(t, start).Want(http.StatusOK).Rest()
	testkit.EndsAs(t, owner.Resume(t, run, testkit.Cursor(run, 1)).Rest(), "completed")
	if text := owner.Snapshot(t, run).Snapshot.Text; text != canary+"-answer" {
		t.Errorf("the owner got %q, want the answer", text)
	}
	owner.Active(t, "conv-1")
	owner.Do(t, testkit.Ask{Path: "/_runs"}).Want(http.StatusOK)

	ticket := testkit.Decode[struct{ URL string }](t, owner.Do(t, testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/ticket"}).Want(http.StatusCreated).Body()).URL
	anybody := testkit.NewClient(owner.Base)
	anybody.Do(t, testkit.Ask{Path: ticket}).Want(http.StatusOK)
	s.hidden = append(s.hidden, ticket[strings.Index(ticket, "ticket=")+len("ticket="):])
	refused(t, anybody, testkit.Ask{Path: ticket + canary}, http.StatusUnauthorized)

	refused(t, owner, testkit.Chat("conv-1", canary+"-other").Key(canary+"-key"), http.StatusUnprocessableEntity)
	refused(t, owner, start.Key(canary+" key"), http.StatusBadRequest)
	refused(t, owner, testkit.Resume(run, run+"."+canary), http.StatusBadRequest)
	refused(t, owner, testkit.Chat("conv-1", canary+strings.Repeat("x", 20_000)).Key("k"), http.StatusRequestEntityTooLarge)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		refused(t, other, testkit.Ask{Method: method, Path: "/_runs/" + run}, http.StatusNotFound)
	}
	refused(t, other, testkit.Resume(run, ""), http.StatusNotFound)
	refused(t, other, testkit.Ask{Method: http.MethodPost, Path: "/_runs/" + run + "/cancel"}, http.StatusNotFound)
}
