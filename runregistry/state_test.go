package runregistry

import (
	"encoding/json"
	"testing"
)

var allStates = []State{StateNone, Queued, Running, Waiting, Cancelling, Completed, Failed, Cancelled, Uncertain}

// allowed is the table of the contract, written down once more: one column per
// state in the order of allStates.
var allowed = map[State]string{
	//           -QRWcCFXU
	StateNone:  ".x.......",
	Queued:     "..x...xx.",
	Running:    "...xxxxxx",
	Waiting:    "..x.xxxxx",
	Cancelling: ".....xxxx",
	Completed:  ".........",
	Failed:     ".........",
	Cancelled:  ".........",
	Uncertain:  ".........",
}

func TestOnlyTheMovesOfTheTableAreAllowed(t *testing.T) {
	for _, from := range allStates {
		for i, to := range allStates {
			if got, want := from.CanBecome(to), allowed[from][i] == 'x'; got != want {
				t.Errorf("%q to %q: got %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestTerminalStatesAreLeftByNobody(t *testing.T) {
	for _, from := range allStates {
		moves := 0
		for _, to := range allStates {
			if from.CanBecome(to) {
				moves++
			}
		}
		if from.Terminal() != (moves == 0) {
			t.Errorf("%q: got terminal %v with %d moves", from, from.Terminal(), moves)
		}
		if active := from != StateNone && !from.Terminal(); from.Active() != active {
			t.Errorf("%q: got active %v, want %v", from, from.Active(), active)
		}
	}
}

func TestStatesHaveTheirPublicNames(t *testing.T) {
	names := []string{"", "queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "uncertain"}
	for i, s := range allStates {
		if s.String() != names[i] {
			t.Errorf("got %q, want %q", s, names[i])
		}
		parsed, ok := ParseState(names[i])
		if parsed != s || ok != (s != StateNone) {
			t.Errorf("%q: got %v, %v", names[i], parsed, ok)
		}
	}
	for _, bad := range []string{"Running", "run", "none", "running "} {
		if s, ok := ParseState(bad); ok || s != StateNone {
			t.Errorf("%q: got %v, %v, want none", bad, s, ok)
		}
	}
	if got, want := (Uncertain + 1).String(), "State(9)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEffectsHaveTheirPublicNamesAndOrder(t *testing.T) {
	last := -1
	for name, e := range map[string]Effect{"none": EffectNone, "possible": EffectPossible, "observed": EffectObserved} {
		if e.String() != name {
			t.Errorf("got %q, want %q", e, name)
		}
	}
	for _, e := range []Effect{EffectNone, EffectPossible, EffectObserved} {
		if int(e) <= last {
			t.Errorf("%s does not grow", e)
		}
		last = int(e)
	}
	if got, want := (EffectObserved + 1).String(), "Effect(3)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStateAndEffectAreWordsInJSON(t *testing.T) {
	got, err := json.Marshal(map[string]any{"state": Cancelling, "effect": EffectPossible})
	if want := `{"effect":"possible","state":"cancelling"}`; err != nil || string(got) != want {
		t.Errorf("got %s and error %v, want %s", got, err, want)
	}
}

func TestForbiddenMovesNameBothStates(t *testing.T) {
	err := &TransitionError{From: Completed, To: Running}
	if got, want := err.Error(), "run cannot go from completed to running"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
