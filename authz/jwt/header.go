package jwt

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	strict "github.com/go-jose/go-jose/v4/json"
)

// maxToken is the longest token, in bytes.
const maxToken = 8 << 10

// maxKid is the longest key id, in bytes.
const maxKid = 256

// head is what the header of a token says (RFC 7515 section 4). Its jku, jwk,
// x5u and x5c are not read: who signs a token does not choose the key.
type head struct {
	alg, kid, typ string
}

// types are what a token may say that it is; all others are tokens for another
// use (RFC 8725 section 3.11).
var types = []string{"", "jwt", "at+jwt"}

const accessToken = "at+jwt" // RFC 9068 section 2.1

// peek reads a token without believing it.
func peek(text string) (head, *claims, error) {
	if len(text) > maxToken {
		return head{}, nil, errSize
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[2] == "" {
		return head{}, nil, errForm
	}
	var members map[string]any
	if decode(parts[0], &members) != nil || members == nil {
		return head{}, nil, errForm
	}
	h, err := readHead(members)
	if err != nil {
		return head{}, nil, err
	}
	c := new(claims)
	if decode(parts[1], &c.members) != nil || c.members == nil {
		return head{}, nil, errForm
	}
	return h, c, nil
}

// decode reads a part of a token. Members that stand twice are an error, since
// others would read the other one (RFC 7515 section 4).
func decode(part string, v any) error {
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	switch {
	case err != nil:
		return err
	case !utf8.Valid(data):
		return errForm
	}
	return strict.Unmarshal(data, v)
}

func readHead(members map[string]any) (h head, err error) {
	for _, name := range []string{"crit", "b64", "enc", "zip"} {
		if _, there := members[name]; there {
			return head{}, errHeader
		}
	}
	for name, field := range map[string]*string{"alg": &h.alg, "kid": &h.kid, "typ": &h.typ} {
		value, there := members[name]
		text, ok := value.(string)
		if there && (!ok || text == "") {
			return head{}, errHeader
		}
		*field = text
	}
	h.typ = strings.TrimPrefix(strings.ToLower(h.typ), "application/")
	cty, _ := members["cty"].(string)
	switch {
	case len(h.kid) > maxKid:
		return head{}, errHeader
	case strings.EqualFold(strings.TrimPrefix(cty, "application/"), "JWT"): // another token is inside
		return head{}, errHeader
	case !slices.Contains(types, h.typ):
		return head{}, errKind
	}
	return h, nil
}
