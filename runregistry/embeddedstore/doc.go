// Package embeddedstore keeps runs in the memory of one process: the engine of
// [runregistry.Store] for a single machine. It keeps the promises of package
// runregistry, and adds:
//
//  1. A run is written and read under a lock of its own. What runs compete for
//     (keys, conversations, limits, lists, deadlines) has one more lock, which
//     is always taken first; no append of frames needs it.
//  2. Frames are copied once, into chunks that all readers share. In steady
//     state neither an append nor a read allocates per frame.
//  3. Memory is bounded: above the bound new runs are refused, and those that
//     run go on.
//  4. A deadline that has passed is seen by every call at once, whether or not
//     the sweeper has come by.
//
// Nothing is kept on disk. All changes pass through few functions, each of
// which is one step: start, supersede, settle and remove under the claims'
// lock, and the run's own intend, append, rename and deliver. A journal
// belongs into them, before they return.
package embeddedstore
