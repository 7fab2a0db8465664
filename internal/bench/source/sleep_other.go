//go:build !linux

package source

import "time"

func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }
