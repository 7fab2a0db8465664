package proxy

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Guard is what the bodies of starts and steers may not say. The zero value
// allows everything.
type Guard struct {
	// Roles are the roles that messages may have; empty allows all. Fields that
	// stand for a message of a role, such as instructions, count as one.
	Roles []string
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
	return len(g.Roles)+len(g.Models)+len(g.Deny)+len(g.Set) > 0 || g.NoURLs
}

// The places are those of all dialects: a client must not choose one in which
// nobody looks.
var (
	rolePlaces = places("messages.*.role", "messages.*.type", "messages.*.0", "message.role", "input.*.role",
		"input.messages.*.role", "input.messages.*.type", "input.messages.*.0", "contents.*.role", "content.role",
		"params.message.role", "chat_history.*.role", "thread.messages.*.role", "state.messages.*.role", "prompt.*.role")
	// implied are members that are a message of a role by themselves.
	implied = map[string][][]string{
		"system": places("system", "instructions", "systemInstruction", "system_instruction", "system_prompt", "config.systemInstruction"),
		"tool":   places("contents.*.parts.*.functionResponse", "contents.*.parts.*.function_response"),
	}
	// typed are members whose value says that an item is the answer of a tool.
	typed = places("input.*.type", "messages.*.content.*.type", "input.messages.*.content.*.type")
	tools = []string{"function_call_output", "tool_result", "custom_tool_call_output", "computer_call_output", "local_shell_call_output"}

	modelPlaces  = places("model", "model_name", "modelName", "modelId", "models.*", "input.model", "config.model", "config.configurable.model", "forwardedProps.model")
	modelInPath  = regexp.MustCompile(`/models?/([^/:]+)[:/]`)
	messageRoots = places("messages", "message", "input", "contents", "content", "prompt", "query", "parts", "params.message", "params.arguments")
)

// roleNames are other words for roles; noRoles are values of a type that is no
// role.
var (
	roleNames = map[string]string{"human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant", "function": "tool"}
	noRoles   = []string{"message", "text", "remove"}
)

func places(paths ...string) [][]string {
	all := make([][]string, len(paths))
	for i, p := range paths {
		all[i] = strings.Split(p, ".")
	}
	return all
}

// at reports whether a path is one of the places. Names are compared without
// case, as some backends do.
func at(path []string, all [][]string) bool {
	return slices.ContainsFunc(all, func(p []string) bool { return slices.EqualFunc(p, path, sameName) })
}

func sameName(want, got string) bool {
	return strings.EqualFold(want, got) || want == "*" && got != "" && got[0] >= '0' && got[0] <= '9'
}

// check refuses a body that says what it may not, and returns the one to send.
func (g *Guard) check(u *url.URL, body []byte) ([]byte, error) {
	if !g.on() {
		return body, nil
	}
	if m := modelInPath.FindStringSubmatch(u.Path); m != nil && len(g.Models) > 0 && !slices.Contains(g.Models, m[1]) {
		return nil, privileged("models")
	}
	if len(body) == 0 {
		return body, nil
	}
	var rule string
	denied := places(g.Deny...)
	err := inspect(body, func(m *member) {
		if rule == "" {
			rule = g.broken(m, denied)
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

// broken returns the rule that a member breaks, or "".
func (g *Guard) broken(m *member, denied [][]string) string {
	switch {
	case len(g.Roles) > 0 && !g.allowsRole(m):
		return "roles"
	case len(g.Models) > 0 && at(m.path, modelPlaces) && !m.null && (!m.text || !slices.Contains(g.Models, m.value)):
		return "models"
	case at(m.path, denied):
		return "deny"
	case g.NoURLs && m.text && isURL(m.value) && !inMessage(m.path):
		return "urls"
	}
	return ""
}

// inMessage reports whether a member is part of what is said, where URLs are
// text like any other.
func inMessage(path []string) bool {
	return slices.ContainsFunc(messageRoots, func(root []string) bool {
		return len(path) >= len(root) && slices.EqualFunc(root, path[:len(root)], strings.EqualFold)
	})
}

func (g *Guard) allowsRole(m *member) bool {
	for role, where := range implied {
		if at(m.path, where) && !m.null && !slices.Contains(g.Roles, role) {
			return false
		}
	}
	if m.text && at(m.path, typed) && slices.Contains(tools, m.value) {
		return slices.Contains(g.Roles, "tool")
	}
	if !at(m.path, rolePlaces) {
		return true
	}
	last := strings.ToLower(m.path[len(m.path)-1])
	switch {
	case last == "role":
		return m.text && g.has(m.value)
	case !m.text || last == "type" && slices.Contains(noRoles, m.value):
		return true
	}
	return g.has(m.value)
}

func (g *Guard) has(role string) bool {
	if name, ok := roleNames[strings.ToLower(role)]; ok && slices.Contains(g.Roles, name) {
		return true
	}
	return slices.Contains(g.Roles, role)
}

func isURL(text string) bool {
	scheme, _, ok := strings.Cut(strings.TrimSpace(text), "://")
	return ok && scheme != "" && !strings.ContainsAny(scheme, " \t\n/")
}
