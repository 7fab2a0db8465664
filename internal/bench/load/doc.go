// Package load reads many event streams at once and tells what came: how many
// frames, how late, and whether any was missing, doubled or out of order.
//
// It promises:
//
//  1. Few system calls: one read per arrival, one wait for many. What the
//     client costs must not drown what the gateway costs on the same cores.
//  2. Every frame of every stream is looked at: numbers run 1, 2, 3, ... to the
//     end marker, and where the gateway numbers frames too, its numbers agree.
//  3. The window is measured from inside: CPU clocks and frame counts are read
//     at the same two moments.
//
// It works on Linux.
package load
