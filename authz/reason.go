package authz

import "errors"

// Reasoned is implemented by errors that know why credentials are not good, in
// one word of a closed set. It is for operators: a caller is never told.
type Reasoned interface {
	error
	Reason() string
}

// Reason says in one word why a request was refused for what it came with, or
// nothing if it was not. The words are fit for the label of a metric: no part
// of a request is ever among them.
func Reason(err error) string {
	if reasoned, ok := errors.AsType[Reasoned](err); ok {
		return reasoned.Reason()
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}

var reasons = []struct {
	err  error
	word string
}{
	{ErrNoCredentials, "none"},
	{ErrBadCredentials, "credentials"},
	{ErrScope, "scope"},
	{ErrCrossSite, "cross_site"},
	{ErrUnavailable, "unavailable"},
}
