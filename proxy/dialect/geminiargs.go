package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// growing is where the arguments of a call stand that come leaf by leaf: each
// has a path, and a value or a piece of a string.
type growing struct {
	path   []string // of the last leaf; places begin with a bracket
	opened bool     // the object around everything
	within bool     // the last leaf is a string that goes on
}

// maxDepth bounds the paths of leaves; deeper ones are left out.
const maxDepth = 64

// add appends a leaf to what was written before it.
func (g *growing) add(c *clip, leaf gjson.Result) {
	path := leafPath(leaf.Get("jsonPath").Str)
	if len(path) == 0 || len(path) > maxDepth {
		return
	}
	text, continues := leaf.Get("stringValue"), leaf.Get("willContinue").Bool()
	if !g.within || !slices.Equal(path, g.path) {
		g.move(c, path)
		if text.Exists() {
			c.add(`"`)
		}
	}
	if !text.Exists() {
		c.add(leafValue(leaf))
		return
	}
	c.addBytes(insideOfString(text.Str))
	if g.within = continues; !continues {
		c.add(`"`)
	}
}

func leafValue(leaf gjson.Result) string {
	if v := (paths{"numberValue", "boolValue"}).value(leaf); v.Exists() {
		return v.Raw
	}
	return "null"
}

// move closes what the last leaf stood in and opens what the next one does.
func (g *growing) move(c *clip, path []string) {
	if !g.opened {
		g.opened = true
		c.add("{")
	}
	shared := 0
	for shared < len(g.path)-1 && shared < len(path)-1 && g.path[shared] == path[shared] && isPlace(g.path[shared+1]) == isPlace(path[shared+1]) {
		shared++
	}
	g.closeTo(c, shared)
	if len(g.path) > 0 {
		c.add(",")
	}
	for i := shared; i < len(path); i++ {
		if i > shared {
			c.add(bracket(path[i], "[", "{"))
		}
		if !isPlace(path[i]) {
			c.addBytes(slices.Concat([]byte{'"'}, insideOfString(path[i]), []byte(`":`)))
		}
	}
	g.path = path
}

// closeTo closes a string that goes on, and everything below a depth.
func (g *growing) closeTo(c *clip, depth int) {
	if g.within {
		g.within = false
		c.add(`"`)
	}
	for i := len(g.path) - 1; i > depth; i-- {
		c.add(bracket(g.path[i], "]", "}"))
	}
}

// end closes everything.
func (g *growing) end(c *clip) {
	if !g.opened {
		c.add("{")
	}
	g.closeTo(c, 0)
	c.add("}")
}

// insideOfString is what stands between the quotes of a string.
func insideOfString(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is no page, and would be six times as long
	if e.Encode(strings.ToValidUTF8(s, "\uFFFD")) != nil {
		return nil
	}
	return b.Bytes()[1 : b.Len()-2]
}

func isPlace(segment string) bool { return strings.HasPrefix(segment, "[") }

// bracket is that of the array or the object in which a segment stands.
func bracket(segment, array, object string) string {
	if isPlace(segment) {
		return array
	}
	return object
}

// leafPath splits a path such as $.stops[0].name.
func leafPath(path string) (segments []string) {
	path, ok := strings.CutPrefix(path, "$")
	for ok && path != "" {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		segment := path[:end]
		if path = path[end:]; segment[0] == '.' {
			segment = segment[1:]
		}
		if name, quoted := strings.CutPrefix(segment, "['"); quoted {
			segment = strings.TrimSuffix(name, "']")
		}
		segments = append(segments, segment)
	}
	return segments
}
