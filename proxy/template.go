package proxy

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Errors of [expand].
var (
	// errUnknownVariable: a variable has no value, at least not yet.
	errUnknownVariable = errors.New("value is not known")
	// errUnsafeValue: a value cannot be one segment of a path.
	errUnsafeValue = errors.New("value cannot stand in a path")
)

// maxVariable bounds the value of a variable, in bytes.
const maxVariable = 256

// literal names the variables whose values are escaped paths of requests that
// this server has taken, and stand as they are.
var literal = map[string]bool{"prefix": true, "start_path": true}

// expand replaces the variables of a template of a path, or of an absolute URL,
// by values that are escaped as one segment or, after the question mark, as one
// query value each.
func expand(template string, value func(name string) (string, bool)) (string, error) {
	path, query, asks := strings.Cut(template, "?")
	out, err := replace(path, value, segment)
	if err != nil || !asks {
		return out, err
	}
	query, err = replace(query, value, func(name, v string) (string, error) {
		if _, err := segment(name, v); err != nil {
			return "", err
		}
		return url.QueryEscape(textOf(name, v)), nil
	})
	return out + "?" + query, err
}

// segment escapes a value as one segment of a path. What proxies and servers
// are known to read in more than one way is refused.
func segment(name, v string) (string, error) {
	if literal[name] {
		return v, nil
	}
	v = textOf(name, v)
	unsafe := v == "" || v == "." || v == ".." || len(v) > maxVariable || !utf8.ValidString(v) ||
		strings.ContainsAny(v, `/\`) || strings.ContainsFunc(v, unicode.IsControl)
	if unsafe {
		return "", fmt.Errorf("expanding %s: %w", name, errUnsafeValue)
	}
	return url.PathEscape(v), nil
}

// replace puts values in the places of {variables}. A brace that no name
// follows stands for itself.
func replace(template string, value func(name string) (string, bool), escape func(name, v string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, name, after, found := nextVariable(template)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		v, ok := value(name)
		if !ok && strings.HasPrefix(name, memberPrefix) {
			return "", errNoWay // and never will be
		}
		if !ok {
			return "", fmt.Errorf("expanding %s: %w", name, errUnknownVariable)
		}
		escaped, err := escape(name, v)
		if err != nil {
			return "", err
		}
		out.WriteString(escaped)
		template = after
	}
}

// nextVariable cuts a template at its first variable.
func nextVariable(template string) (before, name, after string, found bool) {
	for from := 0; ; {
		open := strings.IndexByte(template[from:], '{')
		if open < 0 {
			return template, "", "", false
		}
		open += from
		length := strings.IndexByte(template[open:], '}')
		if length > 1 && !strings.ContainsFunc(template[open+1:open+length], notVariableRune) {
			return template[:open], template[open+1 : open+length], template[open+length+1:], true
		}
		from = open + 1
	}
}

func notVariableRune(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.'
}

// Variables returns the names of the variables in a template.
func Variables(template string) (names []string) {
	for {
		_, name, after, found := nextVariable(template)
		if !found {
			return names
		}
		names = append(names, name)
		template = after
	}
}
