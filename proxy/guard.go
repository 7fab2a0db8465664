package proxy

import (
	"net/url"
	"slices"
	"strings"
)

// Guard is what the bodies of starts and steers may not say. The zero value
// allows everything.
type Guard struct {
	// Roles are the roles that messages may have; empty allows all. Fields that
	// stand for a message of a role, such as instructions, count as one.
	Roles []string
	// NoTools refuses definitions of tools.
	NoTools bool
	// Models are the models that may be named; empty allows all.
	Models []string
	// Deny are paths of members that may not be there. A * stands for every
	// element of an array.
	Deny []string
	// Set are members that get a value, as JSON, whatever the client sends.
	Set []Fixed
	// NoURLs refuses URLs outside of messages.
	NoURLs bool
}

// Fixed is a member and its value, as JSON.
type Fixed struct{ Path, Value string }

func (g *Guard) on() bool {
	return len(g.Roles)+len(g.Models)+len(g.Deny)+len(g.Set) > 0 || g.NoTools || g.NoURLs
}

// Words of dialects, by the role that they stand for.
var (
	roleNames = map[string]string{
		"human": "user", "role_user": "user", "usermessage": "user", "humanmessagechunk": "user",
		"ai": "assistant", "model": "assistant", "bot": "assistant", "chatbot": "assistant", "agent": "assistant",
		"role_agent": "assistant", "apimessage": "assistant", "aimessagechunk": "assistant",
		"reasoning": "assistant", "activity": "assistant",
		"function": "tool", "tool_return": "tool",
	}
	// noRoles are types of messages that say nothing about a role.
	noRoles = []string{"message", "text", "approval"}
	// partRoles are types and states of parts that are no part of what their
	// message's role says.
	partRoles = map[string]string{
		"system": "system", "developer": "developer", "tool": "tool", "function": "tool",
		"output-available": "tool", "output-error": "tool", "result": "tool", "add-tool-result": "tool", // AI SDK, assistant-ui
		"mcp_call": "tool", "code_interpreter_call": "tool", "file_search_call": "tool", "web_search_call": "tool", // Responses, with their results
		"function_result": "tool", "mcp_server_tool_result": "tool", "code_execution_result": "tool", // Interactions
		"google_search_result": "tool", "url_context_result": "tool", "file_search_result": "tool",
		"mcp_list_tools": "system",
	}
	// addresses are names of members that lead a backend elsewhere even if the
	// scheme is missing.
	addresses = []string{"baseurl", "apibase", "apiurl", "serverurl", "endpoint", "webhook", "webhookurl", "callbackurl", "proxyurl"}
	// webSchemes need no slashes to be URLs (WHATWG URL, section 4.4).
	webSchemes = []string{"http", "https", "ws", "wss", "ftp", "file"}
	skipped    = strings.NewReplacer("\t", "", "\n", "", "\r", "")
)

func places(paths ...string) [][]string {
	all := make([][]string, len(paths))
	for i, p := range paths {
		all[i] = strings.Split(p, ".")
	}
	return all
}

// at reports whether a path is one of those that the configuration names. Names
// are compared without case, as some backends do.
func at(path []string, all [][]string) bool {
	return slices.ContainsFunc(all, func(p []string) bool { return slices.EqualFunc(p, path, sameName) })
}

func sameName(want, got string) bool {
	return strings.EqualFold(want, got) || want == "*" && isElement(got)
}

// check refuses a body that says what it may not, and returns the one to send.
func (g *Guard) check(u *url.URL, body []byte) ([]byte, error) {
	if !g.on() {
		return body, nil
	}
	if !g.allowsPath(u) {
		return nil, privileged("models")
	}
	if len(body) == 0 {
		return body, nil
	}
	var rule string
	denied, models := places(g.Deny...), modelsOf(u)
	err := inspect(body, func(m *member) {
		if rule == "" {
			rule = g.broken(m, denied, models)
		}
	})
	switch {
	case err != nil:
		return nil, ambiguous(err)
	case rule != "":
		return nil, privileged(rule)
	}
	for _, f := range g.Set {
		if body, err = fix(body, f); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// unambiguous refuses a body in which decoders may see different things.
func (g *Guard) unambiguous(body []byte) error {
	if !g.on() || len(body) == 0 {
		return nil
	}
	if err := inspect(body, func(*member) {}); err != nil {
		return ambiguous(err)
	}
	return nil
}

func ambiguous(err error) *Problem {
	return &Problem{Code: codeMalformedRequest, Detail: "The body must be one unambiguous JSON object.", Err: err}
}

// privileged names the rule, never what was sent.
func privileged(rule string) *Problem {
	return refuse(codePrivileged, "A client may not send what the rule forbids.").with("rule", rule)
}

// broken returns the rule that a member breaks, or "". The models are places
// beside those of the presets.
func (g *Guard) broken(m *member, denied, models [][]string) string {
	is := guarded.find(m.path)
	switch {
	case len(g.Roles) > 0 && !g.allowsRole(m, is):
		return "roles"
	case g.NoTools && definesTool(m, is):
		return "tools"
	case len(g.Models) > 0 && (is&asModel != 0 || at(m.path, models)) && !m.null && (!m.text || !slices.Contains(g.Models, m.value)):
		return "models"
	case at(m.path, denied):
		return "deny"
	case g.NoURLs && m.text && is&asSaid == 0 && isAddress(m):
		return "urls"
	}
	return ""
}

// definesTool: clients that have no tools send empty lists of them.
func definesTool(m *member, is privilege) bool {
	return is&inTool != 0 || is&asTool != 0 && m.value != ""
}

func (g *Guard) allowsRole(m *member, is privilege) bool {
	switch {
	case is&asSystem != 0 && !m.null && !g.has("system"), is&asAnswer != 0 && !m.null && !g.has("tool"):
		return false
	case is&asRole != 0 && (!m.text || !g.has(m.value)):
		return false
	case is&asType != 0 && m.text && !slices.Contains(noRoles, m.value) && !g.has(m.value):
		return false
	case is&asPart != 0 && m.text:
		role := partRole(m.value)
		return role == "" || g.has(role)
	}
	return true
}

// partRole returns the role that a part of a message really has, or "".
func partRole(word string) string {
	word = strings.ToLower(word)
	if strings.HasSuffix(word, "tool_result") || strings.HasSuffix(word, "tool-result") || strings.HasSuffix(word, "_call_output") {
		return "tool"
	}
	return partRoles[word]
}

func (g *Guard) has(role string) bool {
	return slices.ContainsFunc(g.Roles, func(allowed string) bool { return roleOf(allowed) == roleOf(role) })
}

func roleOf(word string) string {
	word = strings.ToLower(word)
	if role, ok := roleNames[word]; ok {
		return role
	}
	return word
}

// allowsPath looks at the models that paths name: /models/{model}:verb of
// Gemini, /model/{model}/ of Bedrock, /deployments/{model}/ of Azure, and
// /models/{owner}/{model}/predictions of Replicate.
func (g *Guard) allowsPath(u *url.URL) bool {
	if len(g.Models) == 0 {
		return true
	}
	parts := strings.Split(u.EscapedPath(), "/")
	for i := 0; i+1 < len(parts); i++ {
		name := parts[i+1]
		switch strings.ToLower(parts[i]) {
		case "models":
			model, _, verb := cutVerb(name)
			switch {
			case parts[len(parts)-1] == "predictions" && i+2 < len(parts):
				name += "/" + parts[i+2]
			case verb:
				name = model
			case i+2 == len(parts):
				continue // /v1/models/{model} itself generates nothing
			}
		case "model", "deployments":
			if i+2 == len(parts) {
				continue
			}
		default:
			continue
		}
		if model, err := url.PathUnescape(name); err != nil || !slices.Contains(g.Models, model) {
			return false
		}
	}
	return true
}

// cutVerb parts a name from the verb behind its last colon.
func cutVerb(segment string) (name, verb string, ok bool) {
	if i := strings.LastIndexByte(segment, ':'); i >= 0 {
		return segment[:i], segment[i+1:], true
	}
	return segment, "", false
}

// modelsOf: the version in a prediction of Replicate is its model.
func modelsOf(u *url.URL) [][]string {
	if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/predictions") {
		return places("version")
	}
	return nil
}

// isAddress: a URL, or a member that can be nothing else.
func isAddress(m *member) bool {
	if isURL(m.value) {
		return true
	}
	return m.value != "" && slices.Contains(addresses, plain(m.path[len(m.path)-1]))
}

// isURL takes for a URL what one decoder or another does: line ends and tabs in
// it, and controls and spaces before it, are skipped (WHATWG URL, section 4.4).
func isURL(text string) bool {
	text = skipped.Replace(strings.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' }))
	if host, ok := strings.CutPrefix(text, "//"); ok {
		return host != "" && host[0] > ' ' && host[0] != '/'
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || scheme == "" || strings.ContainsFunc(scheme, func(r rune) bool { return !isSchemeRune(r) }) {
		return false
	}
	return strings.HasPrefix(rest, "//") || slices.Contains(webSchemes, strings.ToLower(scheme))
}

// isSchemeRune (RFC 3986, section 3.1).
func isSchemeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '+' || r == '-' || r == '.'
}
