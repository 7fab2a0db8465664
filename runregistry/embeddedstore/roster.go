package embeddedstore

import "sort"

// roster is a set of runs in the order of their admission. Runs leave it from
// anywhere, mostly from the front.
type roster struct {
	slots []slot // ascending numbers; neither end is vacant
	next  uint64
	live  int
}

// slot is a place in a roster; run is nil when it has left.
type slot struct {
	number uint64
	run    *run
}

// add puts r at the end and returns its number, which is never given again.
func (t *roster) add(r *run) uint64 {
	t.next++
	t.live++
	t.slots = append(t.slots, slot{number: t.next, run: r})
	return t.next
}

// restore puts r at the end under the number that it had, and returns that.
func (t *roster) restore(r *run, number uint64) uint64 {
	t.next = max(t.next, number-1)
	return t.add(r)
}

// remove vacates a number.
func (t *roster) remove(number uint64) {
	i := t.search(number)
	if i == len(t.slots) || t.slots[i].number != number || t.slots[i].run == nil {
		return
	}
	t.slots[i].run = nil
	t.live--
	for len(t.slots) > 0 && t.slots[0].run == nil {
		t.slots = t.slots[1:]
	}
	for n := len(t.slots); n > 0 && t.slots[n-1].run == nil; n-- {
		t.slots = t.slots[:n-1]
	}
	if len(t.slots) > 2*t.live+16 {
		t.compact()
	}
}

func (t *roster) compact() {
	kept := make([]slot, 0, t.live)
	for _, s := range t.slots {
		if s.run != nil {
			kept = append(kept, s)
		}
	}
	t.slots = kept
}

// search returns the index of the first slot with at least this number.
func (t *roster) search(number uint64) int {
	return sort.Search(len(t.slots), func(i int) bool { return t.slots[i].number >= number })
}

// last returns the newest run, or nil.
func (t *roster) last() *run {
	if len(t.slots) == 0 {
		return nil
	}
	return t.slots[len(t.slots)-1].run
}

// before yields the runs with numbers below one, newest first; 0 is above
// all.
func (t *roster) before(number uint64) func(yield func(uint64, *run) bool) {
	i := len(t.slots)
	if number > 0 {
		i = t.search(number)
	}
	return func(yield func(uint64, *run) bool) {
		for i--; i >= 0; i-- {
			if s := t.slots[i]; s.run != nil && !yield(s.number, s.run) {
				return
			}
		}
	}
}
