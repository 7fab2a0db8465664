// Package source is a scripted backend for load tests: an OpenAI-shaped
// endpoint that streams numbered, timed frames at a pace or as fast as it can.
//
// It promises:
//
//  1. Every frame is [FrameSize] bytes of SSE, carries its number and the time
//     of its sending, and leaves in one write; a burst packs [BurstFrames] of
//     them into one.
//  2. The frames of a stream are numbered 1, 2, 3, ... with no hole, whatever
//     pace could be kept: a late turn is dropped, not sent late, so that a busy
//     machine lowers the rate instead of making bursts.
//  3. It is cheap: one goroutine writes all paced streams, and nothing is
//     allocated per frame.
package source
