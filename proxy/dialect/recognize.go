package dialect

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Recognition is whether a request begins a generation.
type Recognition uint8

// The recognitions.
const (
	// No: it does not, and its body need not be read.
	No Recognition = iota
	// Undecided: its body decides; see [RecognizeBody].
	Undecided
	// Yes: it does, unless its body is that of a control call; see [IsControl].
	Yes
)

// Recognize decides from everything but the body whether a request begins a
// generation. Only a POST with a JSON body can; it does if its path is one at
// which a known backend generates, or if it asks for a stream. The path is
// given apart because the request's own may have been rewritten. Own is the
// custom dialect of the configuration, or nil.
func Recognize(r *http.Request, path string, own *Dialect) Recognition {
	switch {
	case r.Method != http.MethodPost, !hasJSON(r), isUpgrade(r.Header), IsControl(r.Method, path, nil):
		return No
	case generates(path), own != nil && own.generates(path), WantsStream(r.Header):
		return Yes
	default:
		return Undecided
	}
}

func generates(path string) bool {
	return slices.ContainsFunc(all, func(d *Dialect) bool { return d.generates(path) })
}

// hasJSON: a body that is declared as JSON and not encoded. gRPC calls its own
// framing application/grpc+json.
func hasJSON(r *http.Request) bool {
	if encoding := r.Header.Get("Content-Encoding"); r.ContentLength == 0 || encoding != "" && encoding != "identity" {
		return false
	}
	kind, _ := mediaType(r.Header.Get("Content-Type"))
	return kind == "application/json" || strings.HasSuffix(kind, "+json") && !strings.HasPrefix(kind, "application/grpc")
}

// mediaType cuts the parameters off; only the type itself counts, so that a
// malformed parameter changes nothing.
func mediaType(value string) (kind, params string) {
	kind, params, _ = strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(kind)), params
}

func isUpgrade(h http.Header) bool { return h.Get("Upgrade") != "" }

// WantsStream reports whether Accept names a type of streams. Wildcards name
// nothing.
func WantsStream(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for entry := range strings.SplitSeq(line, ",") {
			kind, params := mediaType(entry)
			if (kind == "text/event-stream" || kind == "application/x-ndjson") && !isRefused(params) {
				return true
			}
		}
	}
	return false
}

// isRefused: a weight of 0 means not acceptable (RFC 9110, section 12.4.2).
func isRefused(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(param), "=")
		if q, err := strconv.ParseFloat(weight, 64); strings.EqualFold(name, "q") && err == nil && q == 0 {
			return true
		}
	}
	return false
}

// RecognizeBody decides from the body of an [Undecided] request. It does not
// check that the body is valid JSON: that is the backend's to refuse.
func RecognizeBody(path string, body []byte) bool {
	if !isObject(body) || IsControl(http.MethodPost, path, body) {
		return false
	}
	return gjson.GetBytes(body, "stream").Type == gjson.True ||
		gjson.GetBytes(body, "response_mode").Str == "streaming" ||
		hasMessages(body) || isRunInput(body)
}

func isObject(body []byte) bool {
	body = skipSpace(body)
	return len(body) > 0 && body[0] == '{'
}

// hasMessages: the count costs no copy of the messages.
func hasMessages(body []byte) bool { return gjson.GetBytes(body, "messages.#").Type == gjson.Number }

// isRunInput: the input of an AG-UI agent, bare or in the message of a single
// endpoint.
func isRunInput(body []byte) bool {
	return hasText(body, "threadId") && hasText(body, "runId") || isRunMessage(body)
}

func isRunMessage(body []byte) bool {
	return bytes.Contains(body, []byte(`agent/run`)) && gjson.GetBytes(body, "method").Str == "agent/run" &&
		hasText(body, "body.threadId") && hasText(body, "body.runId")
}

// controls are the paths of calls that stop, look up or re-attach, whatever
// the method. Calls that count tokens generate nothing either.
var controls = []string{
	"/cancel", "/stop", "/abort",
	"/tasks/stop/*", "/agent/*/stop/*", "/chatmessage/abort/*/*",
	"/agent/*/connect", "/*:subscribe", "/*:cancel",
	"/threads/*/state", "/threads/*/state/checkpoint", "/threads/*/history", "/threads/search", "/threads/count",
	"/messages/count_tokens", "/responses/input_tokens", "/*:countTokens",
}

// reattachments are the paths at which a GET re-attaches.
var reattachments = []string{"/runs/*/join", "/runs/*/stream"}

// controlMethods are JSON-RPC methods of MCP and A2A that run nothing; one that
// ends with a slash stands for all that begin with it.
var controlMethods = []string{
	"initialize", "ping", "notifications/", "logging/", "completion/", "resources/", "prompts/", "roots/",
	"tools/list", "tasks/", "agent/", "server/discover",
	"CancelTask", "GetTask", "ListTasks", "SubscribeToTask", "GetExtendedAgentCard",
	"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig",
	"ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig",
}

// IsControl reports whether a request is a control call of a dialect: one that
// cancels, stops, looks up, re-attaches or notifies. Such a call never starts a
// run. The body may be nil when it was not read; then only the path counts.
func IsControl(method, path string, body []byte) bool {
	switch {
	case matchesAny(controls, path):
		return true
	case method == http.MethodPost:
		return isControlMessage(body)
	default:
		return matchesAny(reattachments, path)
	}
}

// endpointMethods are those of CopilotKit's single endpoint that run nothing; a
// slash at the end is as above.
var endpointMethods = []string{"agent/connect", "agent/stop", "info", "transcribe", "threads/", "memories/"}

// isEndpointMessage: such a message has nothing but a method, its parameters
// and a body.
func isEndpointMessage(body []byte) bool {
	return bytes.Contains(body, []byte(`"method"`)) && isAmong(endpointMethods, gjson.GetBytes(body, "method").Str) && !hasMessages(body)
}

func isControlMessage(body []byte) bool {
	if !bytes.Contains(body, []byte(`"jsonrpc"`)) {
		return isEndpointMessage(body)
	}
	doc := gjson.ParseBytes(body)
	if !doc.IsArray() {
		return controlsOnly(doc)
	}
	all := true
	doc.ForEach(func(_, message gjson.Result) bool {
		all = controlsOnly(message)
		return all
	})
	return all
}

// controlsOnly: a message without a method answers one of the server's own
// requests.
func controlsOnly(message gjson.Result) bool {
	if !message.Get("jsonrpc").Exists() {
		return false
	}
	method := message.Get("method").Str
	return method == "" || isAmong(controlMethods, method)
}

func isAmong(methods []string, method string) bool {
	return slices.ContainsFunc(methods, func(c string) bool {
		return method == c || strings.HasSuffix(c, "/") && strings.HasPrefix(method, c)
	})
}
