package dialect

import "strings"

// generates reports whether a path is one at which backends of the dialect
// generate.
func (d *Dialect) generates(path string) bool { return matchesAny(d.generations, path) }

func matchesAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if matchTail(p, path) {
			return true
		}
	}
	return false
}

// matchTail reports whether a path ends with the segments of a pattern: APIs
// are mounted below all kinds of prefixes. A segment * matches any segment that
// is not empty, *suffix one with that end. ^ anchors the pattern at the
// beginning of the path. One slash at the end of the path is ignored.
func matchTail(pattern, path string) bool {
	path = strings.TrimSuffix(path, "/")
	pattern, anchored := strings.CutPrefix(pattern, "^")
	for pattern != "" {
		var want, got string
		pattern, want = cutLast(pattern)
		path, got = cutLast(path)
		if !matchSegment(want, got) {
			return false
		}
	}
	return !anchored || path == ""
}

// cutLast cuts the last segment off. Of a path without a slash nothing is
// left.
func cutLast(path string) (rest, segment string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

func matchSegment(want, got string) bool {
	if suffix, ok := strings.CutPrefix(want, "*"); ok {
		return got != "" && strings.HasSuffix(got, suffix)
	}
	return want == got
}
