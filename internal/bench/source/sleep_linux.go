package source

import (
	"syscall"
	"time"
)

// sleepUntil is time.Sleep with the accuracy of the kernel: the runtime rounds
// sleeps below a millisecond up when it has nothing else to do.
func sleepUntil(at time.Time) {
	for {
		left := time.Until(at)
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(left.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // an interrupted sleep is measured again
	}
}
