package authz

import "strings"

// Claims are what a verified token says about its subject. A nil Claims has
// none. They are for decisions only and are not shown when a caller is printed.
type Claims struct {
	members map[string]any
}

// ClaimsOf returns the claims of a decoded JSON object, which must not be
// changed afterwards.
func ClaimsOf(members map[string]any) *Claims { return &Claims{members: members} }

// Values returns the strings that a claim lists: the words of a string, as in
// scope (RFC 8693 section 4.2), or the strings of an array, whole. A name with
// dots that is no claim itself is a path into objects, as in
// realm_access.roles. It is empty if there is no such claim or it is of another
// type; members of an array that are no strings are left out.
func (c *Claims) Values(name string) []string {
	switch v := c.Find(name).(type) {
	case string:
		return strings.Fields(v)
	case []any:
		values := make([]string, 0, len(v))
		for _, member := range v {
			if s, ok := member.(string); ok {
				values = append(values, s)
			}
		}
		return values
	}
	return nil
}

// Find returns the value of a claim, named as in [Claims.Values]; nil if there
// is none.
func (c *Claims) Find(name string) any {
	if c == nil {
		return nil
	}
	if v, ok := c.members[name]; ok {
		return v
	}
	var at any = c.members
	for step := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[step]
	}
	return at
}
