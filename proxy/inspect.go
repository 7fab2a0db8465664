package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Bounds of a body that is inspected.
const (
	maxNesting = 64
	maxNumber  = 64
)

// member is a value somewhere in a body.
type member struct {
	path  []string // good during the visit only
	text  bool     // value is a string
	null  bool
	value string
}

// errAmbiguous means that decoders may disagree about a body.
var errAmbiguous = errors.New("JSON is ambiguous")

// inspect visits all members and elements of an object. It refuses what two
// decoders could read in two ways: doubled names, unpaired surrogates, invalid
// UTF-8, and whatever is deeper or longer than anybody needs. It keeps nothing
// of a body, which may be millions of members.
func inspect(body []byte, visit func(*member)) error {
	if !utf8.Valid(body) || strings.HasPrefix(string(body[:min(3, len(body))]), "\ufeff") || unpaired(body) {
		return fmt.Errorf("%w: text is not valid Unicode", errAmbiguous)
	}
	d := &inspector{dec: json.NewDecoder(bytes.NewReader(body)), visit: visit}
	d.dec.UseNumber()
	first, err := d.dec.Token()
	if err == nil && first != json.Delim('{') {
		err = fmt.Errorf("%w: it is no object", errAmbiguous)
	}
	if err == nil {
		err = d.object()
	}
	if err != nil {
		return err
	}
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", errAmbiguous)
	}
	return nil
}

type inspector struct {
	dec   *json.Decoder
	visit func(*member)
	path  []string // of the value that is read
}

func (d *inspector) object() error {
	seen := make(map[string]bool)
	for d.dec.More() {
		t, err := d.dec.Token()
		if err != nil {
			return fmt.Errorf("reading body: %w", err)
		}
		name, _ := t.(string)
		if seen[name] {
			return fmt.Errorf("%w: a name is there twice", errAmbiguous)
		}
		seen[name] = true
		if err := d.value(name); err != nil {
			return err
		}
	}
	return d.close()
}

func (d *inspector) array() error {
	for i := 0; d.dec.More(); i++ {
		if err := d.value(strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return d.close()
}

func (d *inspector) close() error {
	if _, err := d.dec.Token(); err != nil {
		return fmt.Errorf("reading body: %w", err)
	}
	return nil
}

// value reads the value of a member or an element.
func (d *inspector) value(name string) error {
	d.path = append(d.path, name)
	defer func() { d.path = d.path[:len(d.path)-1] }()
	if len(d.path) > maxNesting {
		return fmt.Errorf("%w: it is nested too deeply", errAmbiguous)
	}
	t, err := d.dec.Token()
	if err != nil {
		return fmt.Errorf("reading body: %w", err)
	}
	m := member{path: d.path}
	switch v := t.(type) {
	case string:
		m.text, m.value = true, v
	case nil:
		m.null = true
	case json.Number:
		if len(v) > maxNumber {
			return fmt.Errorf("%w: a number is too long", errAmbiguous)
		}
	}
	d.visit(&m)
	switch t {
	case json.Delim('{'):
		return d.object()
	case json.Delim('['):
		return d.array()
	}
	return nil
}

// unpaired reports whether an escape stands for half a character (RFC 8259,
// section 8.2). Backslashes are only in strings.
func unpaired(body []byte) bool {
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			i++
			continue
		}
		r, size := escaped(body[i:])
		if utf16.IsSurrogate(r) {
			low, n := escaped(body[min(i+size, len(body)):])
			if utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			size += n
		}
		i += size
	}
	return false
}

// escaped reads one escape and returns its length; the rune counts for \u only.
func escaped(b []byte) (rune, int) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, min(2, max(len(b), 1))
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0, 2
	}
	return rune(n), 6
}

// fix gives a member its value and leaves every other byte as it is. A body in
// which the member stands below something that is no object is refused.
func fix(body []byte, f Fixed) ([]byte, error) {
	path := strings.Split(f.Path, ".")
	where := gjson.ParseBytes(body)
	for i, name := range path {
		if !where.IsObject() {
			return nil, privileged("set")
		}
		next, odd := memberOf(where, name)
		if odd {
			return nil, privileged("set")
		}
		if !next.Exists() {
			return insert(body, where.Index, where, path[i:], f.Value), nil
		}
		where = next
	}
	return splice(body, where.Index, where.Index+len(where.Raw), f.Value), nil
}

// memberOf finds a member by its exact name. odd tells that there is one whose
// name differs in case alone.
func memberOf(object gjson.Result, name string) (found gjson.Result, odd bool) {
	object.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == name:
			found = value
		case strings.EqualFold(key.Str, name):
			odd = true
		}
		return true
	})
	return found, odd
}

// insert adds a member, and the objects around it, as the first of an object.
func insert(body []byte, at int, object gjson.Result, path []string, value string) []byte {
	for i, member := range slices.Backward(path) {
		name, err := json.Marshal(member)
		if err != nil {
			panic(err) // a string always has a JSON form
		}
		value = string(name) + ":" + value
		if i > 0 {
			value = "{" + value + "}"
		}
	}
	at += bytes.IndexByte(body[at:], '{') + 1
	if len(object.Map()) > 0 {
		value += ","
	}
	return splice(body, at, at, value)
}

func splice(body []byte, from, to int, text string) []byte {
	out := make([]byte, 0, len(body)+len(text))
	return append(append(append(out, body[:from]...), text...), body[to:]...)
}
