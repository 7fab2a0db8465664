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
// With a directory it keeps runs beyond the process, and promises:
//
//  5. What a call returned for survives the death of the process, kill -9
//     included. An admission, an intent, a Stop, an end and a deletion also
//     survive a power cut.
//  6. What could not be journaled has not happened: the call says that the store
//     is unavailable. On a full disk new runs are refused while a reserve serves
//     those under way.
//  7. Opening ends the runs of earlier processes. One that was not dispatched has
//     failed without an effect and frees its key; any other is uncertain.
//  8. What was deleted is gone from the directory within minutes, and so is what
//     expired; what runs for long keeps nothing else there.
//
// The directory holds a journal (package journal) of entries (package entry)
// that say how runs changed, next to the memory that all reads are served from.
// All changes pass through few functions, each of which journals before it
// applies: enter, finish, forget and bind under the claims' lock, and the run's
// own commit and append.
package embeddedstore
