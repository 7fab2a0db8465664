package load

import (
	"math"
	"time"
)

// quantile returns the smallest value that at least the share q of the sorted
// values does not exceed; 0 when there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}
