package authz

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// template is an absolute URL in whose path and query ids may stand. Scheme and
// host are always the configuration's.
type template struct{ path, query string }

// The placeholders of templates.
const (
	conversationHole = "{conversation_id}"
	runHole          = "{run_id}"
)

// parseTemplate checks the URL of a rule. holes are the placeholders that it
// may have; the error tells what is allowed.
func parseTemplate(text string, holes ...string) (template, error) {
	plain := text
	for _, hole := range holes {
		plain = strings.ReplaceAll(plain, hole, "x")
	}
	if strings.ContainsAny(plain, "{}") {
		if len(holes) == 0 {
			return template{}, errors.New("has a placeholder, allowed are none")
		}
		return template{}, fmt.Errorf("has an unknown placeholder, allowed are %s", strings.Join(holes, " and "))
	}
	u, err := url.Parse(plain)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return template{}, errors.New("is no URL with http:// or https:// and a host")
	case u.User != nil:
		return template{}, errors.New("has a password in it: the caller's own credentials are sent")
	case u.Fragment != "" || strings.Contains(plain, "#"):
		return template{}, errors.New("has a fragment, which is never sent")
	}
	literal := u.Scheme + "://" + u.Host
	if len(text) < len(literal) || !strings.EqualFold(text[:len(literal)], literal) {
		return template{}, errors.New("has a placeholder before its path")
	}
	path, query, _ := strings.Cut(text, "?")
	return template{path: path, query: query}, nil
}

// fill puts ids into the template, each as one escaped piece.
func (t template) fill(conversation, run string) string {
	put := func(text string, escape func(string) string) string {
		return strings.NewReplacer(conversationHole, escape(conversation), runHole, escape(run)).Replace(text)
	}
	filled := put(t.path, url.PathEscape)
	if t.query != "" {
		filled += "?" + put(t.query, url.QueryEscape)
	}
	return filled
}

// isSet reports whether the template is one.
func (t template) isSet() bool { return t.path != "" }

// holesOf are the placeholders that a rule may have: there is no run before a
// start.
func holesOf(v Verb) []string {
	if v == Start {
		return []string{conversationHole}
	}
	return []string{conversationHole, runHole}
}

// shown is a URL as an error may name it: without a password.
func shown(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); ok && at >= 0 {
		return scheme + "://" + host[at+1:] + "/" + path
	}
	return text
}
