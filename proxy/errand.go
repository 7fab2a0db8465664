package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// Way is how the configuration says that a call about a run reaches the
// backend. The zero value leaves it to the dialect.
type Way struct {
	// Off: no such call is made.
	Off bool
	// Method and Target are those of a configured call. The target is the
	// template of a path, which goes through the next handler, or of an absolute
	// URL, whose scheme and host have no variables.
	Method, Target string
	// Header are the fields of a call to an absolute URL.
	Header http.Header
}

func (w *Way) configured() bool { return w.Target != "" }

// errNoWay means that there is no such call for a run.
var errNoWay = errors.New("there is no such call for this run")

// errand is one call about a run, with everything filled in.
type errand struct {
	method, target string
	body           []byte
	accept         string
	contentType    string               // empty: JSON, if there is a body
	key            string               // its idempotency key, or empty
	header         http.Header          // of an absolute URL
	after          string               // Last-Event-ID
	own            *dialect.ControlCall // nil for a configured call
}

// direct reports whether the call goes to an address of its own.
func (e *errand) direct() bool { return !strings.HasPrefix(e.target, "/") }

// took reports whether an answer says that the backend took the call.
func (e *errand) took(answer *reply) bool {
	return answer.accepted() && (e.own == nil || !e.own.Refused(answer.body))
}

// bearings are what calls about a run are made of: its names, and how its
// start went upstream.
type bearings struct {
	run          runregistry.RunID
	conversation runregistry.ConversationID
	upstream     string // upstream's id of the run, once known
	// thread is upstream's id of the conversation; empty when only we have one.
	thread string
	// position is where the stream is joined.
	position string
	origin   dialect.Origin
	dialect  *dialect.Dialect // nil when not known
}

// cancel is the call that stops the run.
func (b *bearings) cancel(way *Way) (*errand, error) {
	return b.errand(way, func(c *dialect.Calls) *dialect.ControlCall { return c.Cancel })
}

// status is the call that asks how the run stands.
func (b *bearings) status(way *Way) (*errand, error) {
	return b.errand(way, func(c *dialect.Calls) *dialect.ControlCall { return c.Status })
}

// pause is the call that asks whether a completed run waits for input. A
// configured call for the status has told that already.
func (b *bearings) pause(way *Way) (*errand, error) {
	if way.configured() {
		return nil, errNoWay
	}
	return b.errand(way, func(c *dialect.Calls) *dialect.ControlCall { return c.Pause })
}

// steer is the call that brings the run further input, without the input.
func (b *bearings) steer(way *Way) (*errand, error) {
	return b.errand(way, func(*dialect.Calls) *dialect.ControlCall { return nil })
}

// bearingsOf is what a record tells.
func bearingsOf(rec *runregistry.Record) bearings {
	b := bearings{run: rec.ID, conversation: rec.Conversation, upstream: rec.UpstreamID}
	if rec.Named || len(rec.Aliases) > 0 {
		b.thread = string(rec.Conversation)
	}
	if json.Unmarshal(rec.Origin, &b.origin) == nil {
		b.dialect, _ = dialect.Lookup(rec.Dialect)
	}
	return b
}

// join is the call that is answered by what follows a position in the run's
// stream.
func (b *bearings) join(way *Way, position string) (*errand, error) {
	at := *b
	at.position = position
	calls, _ := b.dialect.CallsOf(&b.origin)
	own := calls != nil && calls.Join != nil
	if own && !b.origin.Allows(calls.Join) && !way.configured() {
		return nil, errNoWay
	}
	e, err := at.errand(way, func(c *dialect.Calls) *dialect.ControlCall { return c.Join })
	if err != nil {
		return nil, err
	}
	e.accept = acceptStream
	switch {
	case way.configured() && own && e.method == calls.Join.Method:
		var body string
		body, err = replace(calls.Join.Body, at.values(nil), jsonValue)
		e.body = []byte(body)
	case way.configured() && !strings.Contains(way.Target, "{position}"), e.own != nil && e.own.ByEventID:
		e.after = position
	}
	return e, err
}

// acceptStream is what a call that joins a stream asks for.
const acceptStream = "text/event-stream"

// errand fills in a call: the configured one, else the dialect's own. The
// error is [errNoWay], [errUnknownVariable], or [errUnsafeValue].
func (b *bearings) errand(way *Way, which func(*dialect.Calls) *dialect.ControlCall) (*errand, error) {
	switch {
	case way.Off:
		return nil, errNoWay
	case way.configured():
		target, err := expand(way.Target, b.values(nil))
		return &errand{method: way.Method, target: target, header: way.Header}, err
	case b.dialect == nil:
		return nil, errNoWay
	}
	calls, vars := b.dialect.CallsOf(&b.origin)
	if calls == nil || which(calls) == nil {
		return nil, errNoWay
	}
	own, values := which(calls), b.values(vars)
	target, err := expand(own.Path, values)
	if errors.Is(err, errUnknownVariable) && b.upstream != "" {
		return nil, errNoWay // who names a run names its thread with it, or never
	}
	if err != nil {
		return nil, err
	}
	body, err := replace(own.Body, values, jsonValue)
	return &errand{method: own.Method, target: target, body: []byte(body), accept: own.Accept, own: own}, err
}

// values are the variables of the run; vars are those that the dialect read
// from the start's path.
func (b *bearings) values(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		var v string
		switch name {
		case "run_id":
			v = string(b.run)
		case "conversation_id":
			v = string(b.conversation)
		case "upstream_id", "upstream_run_id":
			v = b.upstream
		case "upstream_conversation_id":
			v = b.thread
		case "start_path":
			v = b.origin.Path
		case "position":
			v = b.position
		default:
			member, isMember := strings.CutPrefix(name, memberPrefix)
			if !isMember {
				v, known := vars[name]
				return v, known // a prefix may be empty
			}
			v = string(b.origin.Fields[member])
		}
		return v, v != ""
	}
}

// memberPrefix begins the names of variables that are members of the start's
// body, as raw JSON.
const memberPrefix = "request."

// textOf is a variable as text.
func textOf(name, v string) string {
	if strings.HasPrefix(name, memberPrefix) {
		return gjson.Parse(v).String()
	}
	return v
}

// jsonValue is a variable as a JSON value.
func jsonValue(name, v string) (string, error) {
	if strings.HasPrefix(name, memberPrefix) || name == "position" && isNumber(v) {
		return v, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func isNumber(v string) bool { return gjson.Valid(v) && gjson.Parse(v).Type == gjson.Number }
