package jwt

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// place is a part of a request that carries tokens.
type place int

const (
	inHeader place = iota
	inQuery
	inCookie
)

// source is where tokens may stand: Authorization, or a query parameter or
// cookie of this name.
type source struct {
	in   place
	name string
}

// token is a token and where it stood.
type token struct {
	source
	text string
}

// addSource adds a place that an issuer names. The header comes first, then
// what a page put into the URL, then what the browser adds by itself.
func (i *Identity) addSource(in place, name string) {
	s := source{in: in, name: name}
	if name == "" || slices.Contains(i.sources, s) {
		return
	}
	i.sources = append(i.sources, s)
	slices.SortStableFunc(i.sources, func(a, b source) int { return int(a.in) - int(b.in) })
}

// tokensOf returns the tokens of a request, the one that counts first. Two in
// one place are refused: it cannot be told whose request it is.
func (i *Identity) tokensOf(r *http.Request) ([]token, error) {
	var found []token
	for _, s := range i.sources {
		texts, ok := s.texts(r)
		switch {
		case !ok || len(texts) > 1:
			return nil, errForm
		case len(texts) == 1:
			found = append(found, token{source: s, text: texts[0]})
		}
	}
	return found, nil
}

// texts returns what stands in a place. It is not ok if that is no token at
// all.
func (s source) texts(r *http.Request) (texts []string, ok bool) {
	switch s.in {
	case inHeader:
		return bearer(r.Header.Values("Authorization"))
	case inQuery:
		texts = parametersOf(r.URL.RawQuery, s.name)
	case inCookie:
		for _, c := range r.CookiesNamed(s.name) {
			texts = append(texts, c.Value)
		}
	}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" }), true
}

// bearer returns the tokens of Authorization (RFC 6750 section 2.1). Other
// schemes are somebody else's, if they stand alone.
func bearer(fields []string) (texts []string, ok bool) {
	for _, field := range fields {
		scheme, text, _ := strings.Cut(strings.TrimSpace(field), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		if text = strings.TrimSpace(text); text == "" {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, len(fields) <= 1
}

// parametersOf returns the values of a query parameter.
func parametersOf(raw, name string) (values []string) {
	for pair := range strings.SplitSeq(raw, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); err != nil || decoded != name {
			continue
		}
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		values = append(values, value)
	}
	return values
}

// StripQuery implements [authz.TokenBearer].
func (i *Identity) StripQuery(raw string) string {
	for _, s := range i.sources {
		if s.in == inQuery && len(parametersOf(raw, s.name)) > 0 {
			raw = withoutParameter(raw, s.name)
		}
	}
	return raw
}

// withoutParameter leaves every other parameter as it is, byte for byte.
func withoutParameter(raw, name string) string {
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(key); err != nil || decoded != name {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// DropTokens implements [authz.TokenBearer].
func (i *Identity) DropTokens(h http.Header) {
	h.Del("Authorization")
	for _, s := range i.sources {
		if s.in == inCookie {
			dropCookie(h, s.name)
		}
	}
}

// dropCookie removes a cookie, all of its name.
func dropCookie(h http.Header, name string) {
	var lines []string
	for _, line := range h.Values("Cookie") {
		var kept []string
		for pair := range strings.SplitSeq(line, ";") {
			if key, _, _ := strings.Cut(pair, "="); strings.TrimSpace(key) != name {
				kept = append(kept, strings.TrimSpace(pair))
			}
		}
		if len(kept) > 0 {
			lines = append(lines, strings.Join(kept, "; "))
		}
	}
	h.Del("Cookie")
	if len(lines) > 0 {
		h["Cookie"] = lines
	}
}
