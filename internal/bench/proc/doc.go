// Package proc asks the kernel what a process has used. It works on Linux.
//
// It promises:
//
//  1. CPU time is counted in nanoseconds and includes threads that have ended:
//     the ticks of /proc/<pid>/stat are 10 ms, as much as a quick measurement
//     spends in one go.
//  2. Nothing in the measured process is disturbed: no signal, no stop.
package proc
