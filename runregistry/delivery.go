package runregistry

// Delivery counts the answers that carry this run as the answer to a start:
// the start itself and its retries. A delivery is pending until its response
// headers were sent, then open, and ends done or broken. It decides which
// request repeats a run without saying so.
type Delivery struct {
	Pending int // waiting for response headers
	Open    int // being read
	// Headers is set once any delivery got its response headers.
	Headers bool
	// BrokenEarly is set while the newest delivery ended before its headers.
	BrokenEarly bool
	// BrokenLate is set while the newest delivery ended in mid-stream.
	BrokenLate bool
}

// DeliveryEvent is a step in the life of one delivery.
type DeliveryEvent uint8

// The events: headers were sent; the body was delivered to its end; the
// connection broke before or after the headers.
const (
	DeliveryOpened DeliveryEvent = iota + 1
	DeliveryDone
	DeliveryBrokeEarly
	DeliveryBrokeLate
)

// begin counts a new delivery. Whatever broke before is claimed by it.
func (d *Delivery) begin() {
	d.Pending++
	d.BrokenEarly, d.BrokenLate = false, false
}

// Apply counts one event. An event without the delivery that it ends leaves
// the counters alone: a count below zero would hide every later delivery.
func (d *Delivery) Apply(e DeliveryEvent) {
	switch e {
	case DeliveryOpened:
		d.Pending, d.Open, d.Headers = max(d.Pending-1, 0), d.Open+1, true
	case DeliveryDone:
		d.Open = max(d.Open-1, 0)
	case DeliveryBrokeEarly:
		d.Pending, d.BrokenEarly = max(d.Pending-1, 0), true
	case DeliveryBrokeLate:
		d.Open, d.BrokenLate = max(d.Open-1, 0), true
	}
}

// claimable reports whether an equal request without a key may be taken for
// the retry of a delivery that broke. midStream also admits one that broke
// after its headers, which only a GET that repeats itself may claim.
func (d Delivery) claimable(midStream bool) bool {
	if d.Pending > 0 || d.Open > 0 {
		return false
	}
	return d.BrokenEarly && !d.Headers || midStream && (d.BrokenEarly || d.BrokenLate)
}

// Attach counts one more delivery of r.
func (r *Record) Attach() { r.Delivery.begin() }
