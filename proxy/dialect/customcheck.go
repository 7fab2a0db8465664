package dialect

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Mistake is what is wrong in a [Custom] table.
type Mistake struct {
	// Option is the name of the field in JSON.
	Option string
	// Found is what stands there, Allowed what may.
	Found, Allowed string
}

var (
	customPath  = regexp.MustCompile(`^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*$`)
	customRoute = regexp.MustCompile(`^\^?(/[^/{}\s]+)+$`)
	customName  = regexp.MustCompile(`^[!-~]+$`)
)

const pathAllowed = "names and numbers joined by dots, such as choices.0.delta.content"

// Check returns what is wrong in the table.
func (c *Custom) Check() (all []Mistake) {
	one := func(option, found string, allowed ...string) {
		if found != "" && !slices.Contains(allowed, found) {
			all = append(all, Mistake{option, found, strings.Join(allowed, ", ")})
		}
	}
	one("frames", c.Frames, "sse", customLines)
	one("ids", c.IDs, "on", "off")
	if c.Frames == customLines {
		one("ids", c.IDs, "off")
		one("filler", c.Filler, "space", "newline", "off")
	} else {
		one("filler", c.Filler, "comment", "off")
	}
	if c.Type != "" && !customPath.MatchString(c.Type) {
		all = append(all, Mistake{"type", c.Type, "event, or the path of a member: " + pathAllowed})
	}
	for _, word := range slices.Sorted(maps.Keys(c.Words)) {
		one("words", c.Words[word], meaningNames...)
	}
	for _, route := range c.Generate {
		if !customRoute.MatchString(route) {
			all = append(all, Mistake{"generate", route, "the end of a path, such as /ask or /agents/*/run"})
		}
	}
	if slices.Contains(c.Done, "") {
		all = append(all, Mistake{"done", "", "the data of a frame, such as [DONE]"})
	}
	all = append(all, c.checkFailure()...)
	all = append(all, c.CustomRule.check()...)
	for i := range c.On {
		all = append(all, c.On[i].Check()...)
	}
	if !c.tellsAnything() {
		all = append(all, Mistake{"text", "", "at least one path of a text, or an entry in on"})
	}
	return all
}

// meaningNames are the keys of customMeanings in the order of the documents.
var meaningNames = []string{"completed", "length", "content_filter", "refusal", "input_required", "failed", "cancelled"}

func (c *Custom) checkFailure() (all []Mistake) {
	if c.Failure != "" && (!valid([]byte(filled(c.Failure, "m", "c"))) || strings.ContainsAny(c.Failure, "\r\n")) {
		all = append(all, Mistake{"failure", c.Failure, "one line of JSON in which {message} and {code} stand for strings"})
	}
	if c.FailureEvent != "" && (!customName.MatchString(c.FailureEvent) || c.Failure == "" || c.Frames == customLines) {
		all = append(all, Mistake{"failure_event", c.FailureEvent, "the name of an event, beside failure and with frames sse"})
	}
	return all
}

func (c *Custom) tellsAnything() bool { return len(c.Text)+len(c.On) > 0 }

// Check returns what is wrong in one row.
func (t *CustomType) Check() (all []Mistake) {
	if len(t.Types) == 0 || slices.Contains(t.Types, "") {
		all = append(all, Mistake{"on", strings.Join(t.Types, " "), "one or more types of frames"})
	}
	if t.Means != "" && !slices.Contains(meaningNames, t.Means) {
		all = append(all, Mistake{"means", t.Means, strings.Join(meaningNames, ", ")})
	}
	return append(all, t.CustomRule.check()...)
}

func (r *CustomRule) check() (all []Mistake) {
	path := func(option string, found ...string) {
		for _, p := range found {
			if p != "" && !customPath.MatchString(p) {
				all = append(all, Mistake{option, p, pathAllowed})
			}
		}
	}
	path("text", r.Text...)
	path("reasoning", r.Reasoning...)
	path("id", r.ID)
	path("conversation", r.Conversation)
	path("model", r.Model)
	path("input_tokens", r.InputTokens)
	path("output_tokens", r.OutputTokens)
	path("error", r.Error...)
	path("finish", r.Finish...)
	path("call_id", r.CallID)
	path("call_name", r.CallName)
	path("call_arguments", r.CallArguments)
	path("result", r.Result)
	if r.CallID == "" && (r.Result != "" || r.CallArguments != "" || r.CallName != "") {
		all = append(all, Mistake{"call_id", "", "the path of the call's id, beside call_name, call_arguments or result"})
	}
	return all
}
