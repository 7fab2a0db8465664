package runregistry

import "testing"

func TestDeliveriesAreClaimableWhenTheyBroke(t *testing.T) {
	const attach = DeliveryEvent(0) // one more delivery begins
	for _, tt := range []struct {
		name            string
		events          []DeliveryEvent // after the first delivery began
		early, midStart bool            // claimable by a POST, by a GET that repeats itself
	}{
		{"waits", nil, false, false},
		{"opened", []DeliveryEvent{DeliveryOpened}, false, false},
		{"delivered", []DeliveryEvent{DeliveryOpened, DeliveryDone}, false, false},
		{"broke early", []DeliveryEvent{DeliveryBrokeEarly}, true, true},
		{"broke late", []DeliveryEvent{DeliveryOpened, DeliveryBrokeLate}, false, true},
		{"broke early, claimed", []DeliveryEvent{DeliveryBrokeEarly, attach}, false, false},
		{"broke early, claimed, broke early", []DeliveryEvent{DeliveryBrokeEarly, attach, DeliveryBrokeEarly}, true, true},
		{"broke early, claimed, opened", []DeliveryEvent{DeliveryBrokeEarly, attach, DeliveryOpened}, false, false},
		{"broke early, claimed, delivered", []DeliveryEvent{DeliveryBrokeEarly, attach, DeliveryOpened, DeliveryDone}, false, false},
		{"broke early, claimed, broke late", []DeliveryEvent{DeliveryBrokeEarly, attach, DeliveryOpened, DeliveryBrokeLate}, false, true},
		{"broke late, claimed, delivered", []DeliveryEvent{DeliveryOpened, DeliveryBrokeLate, attach, DeliveryOpened, DeliveryDone}, false, false},
		{"broke late, claimed, broke early", []DeliveryEvent{DeliveryOpened, DeliveryBrokeLate, attach, DeliveryBrokeEarly}, false, true},
		{"two, one broke early, one waits", []DeliveryEvent{attach, DeliveryBrokeEarly}, false, false},
		{"two, both broke early", []DeliveryEvent{attach, DeliveryBrokeEarly, DeliveryBrokeEarly}, true, true},
		{"two, one broke early, one is read", []DeliveryEvent{attach, DeliveryBrokeEarly, DeliveryOpened}, false, false},
		{"two, one delivered, one broke late", []DeliveryEvent{attach, DeliveryOpened, DeliveryOpened, DeliveryBrokeLate, DeliveryDone}, false, true},
		{"told too often", []DeliveryEvent{DeliveryBrokeEarly, DeliveryBrokeEarly, DeliveryDone, DeliveryDone, DeliveryBrokeLate, attach}, false, false},
	} {
		var r Record
		r.Attach()
		for _, e := range tt.events {
			if e == attach {
				r.Attach()
			} else {
				r.Delivery.Apply(e)
			}
		}
		if got := r.Delivery.claimable(false); got != tt.early {
			t.Errorf("%s: got claimable %v, want %v", tt.name, got, tt.early)
		}
		if got := r.Delivery.claimable(true); got != tt.midStart {
			t.Errorf("%s: got claimable in mid-stream %v, want %v", tt.name, got, tt.midStart)
		}
		if d := r.Delivery; d.Pending < 0 || d.Open < 0 {
			t.Errorf("%s: got a negative count in %+v", tt.name, d)
		}
	}
}

func TestUnknownDeliveryEventsChangeNothing(t *testing.T) {
	d := Delivery{Pending: 1, Open: 1}
	before := d
	d.Apply(0)
	d.Apply(99)
	if d != before {
		t.Errorf("got %+v, want %+v", d, before)
	}
}
