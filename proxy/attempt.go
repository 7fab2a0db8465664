package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// headerConfirm carries the word of a person that an effect may happen again.
const (
	headerConfirm  = "X-Run-Confirm"
	confirmEffects = "effects"
)

// attemptOf reads which attempt under its key a request wants; 0 is the last
// one. confirmed tells that the effects of the last one may happen again.
func attemptOf(h http.Header) (n int, confirmed bool, err error) {
	confirmed = strings.EqualFold(strings.TrimSpace(h.Get(headerConfirm)), confirmEffects)
	values := h.Values(headerAttempt)
	if len(values) == 0 {
		return 0, confirmed, nil
	}
	n, err = strconv.Atoi(values[0])
	if err != nil || n < 1 || len(values) > 1 || values[0] != strconv.Itoa(n) {
		return 0, false, refuse(codeMalformedRequest, "X-Run-Attempt is one whole number from 1.")
	}
	return n, confirmed, nil
}

// unsafeRetry says that a person must accept that an effect may happen again.
func unsafeRetry(e *runregistry.UnsafeRetryError) *Problem {
	return (&Problem{
		Code: codeRetryUnsafe, Detail: "Let a person decide, and send X-Run-Confirm: effects.", Err: e,
		Actions: []runregistry.Action{runregistry.ActionShowSnapshot, runregistry.ActionWarnExternal},
	}).with("run_id", e.Run).with("effect", e.Effect)
}

// noSuchAttempt says which attempt was the last.
func noSuchAttempt(e *runregistry.AttemptError) *Problem {
	return (&Problem{
		Code: codeMalformedRequest, Detail: "X-Run-Attempt is at most one more than last_attempt.", Err: e,
	}).with("last_attempt", e.Last)
}
