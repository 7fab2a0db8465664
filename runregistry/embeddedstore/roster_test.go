package embeddedstore

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// numbers collects what a roster yields.
func numbers(t *roster, before uint64) (got []uint64) {
	for n := range t.before(before) {
		got = append(got, n)
	}
	return got
}

func TestRosterAgreesWithASlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r roster
	runs := make(map[uint64]*run)
	var model []uint64 // ascending
	for range 5000 {
		if rng.IntN(100) < 52 || len(model) == 0 {
			member := new(run)
			n := r.add(member)
			runs[n] = member
			model = append(model, n)
		} else {
			i := rng.IntN(len(model))
			if rng.IntN(2) == 0 {
				i = 0 // most leave from the front
			}
			r.remove(model[i])
			r.remove(model[i]) // twice is once
			model = slices.Delete(model, i, i+1)
		}
		checkRoster(t, &r, runs, model)
	}
	if before := uint64(2500); !slices.Equal(numbers(&r, before), backward(model, before)) {
		t.Errorf("got %v below %d, want %v", numbers(&r, before), before, backward(model, before))
	}
}

func checkRoster(t *testing.T, r *roster, runs map[uint64]*run, model []uint64) {
	t.Helper()
	if r.live != len(model) {
		t.Fatalf("got %d live, want %d", r.live, len(model))
	}
	if len(r.slots) > 2*r.live+16 {
		t.Fatalf("got %d slots for %d runs", len(r.slots), r.live)
	}
	var last *run
	if len(model) > 0 {
		last = runs[model[len(model)-1]]
	}
	if r.last() != last {
		t.Fatalf("got %p as last, want %p", r.last(), last)
	}
	if r.next%100 == 0 && !slices.Equal(numbers(r, 0), backward(model, 0)) {
		t.Fatalf("got %v, want %v", numbers(r, 0), backward(model, 0))
	}
}

func backward(model []uint64, before uint64) (want []uint64) {
	for _, n := range slices.Backward(model) {
		if before == 0 || n < before {
			want = append(want, n)
		}
	}
	return want
}
