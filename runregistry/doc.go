// Package runregistry is the core: what a run is, who owns it, which state it
// may move to, and the contract of the store that keeps it.
//
// A run is one upstream generation. It is written by exactly one gateway
// instance, its owner, and read by any number of clients on any instance.
// The package and every [Store] promise:
//
//  1. Admission is one step: key, fingerprint, conversation, limit, index and
//     record are claimed together or not at all.
//  2. A frame is visible to a reader only after the append that holds it
//     returned.
//  3. Sequence numbers start at 1 and have no hole; sending an append twice
//     changes nothing.
//  4. Settle is one step and the first finisher wins: exactly one terminal
//     state is ever committed, and the loser is told which.
//  5. Only a takeover (epoch + 1) ends ownership; after it the old owner can
//     store nothing.
//  6. Hints may be lost; the log is the truth. A reader subscribes first and
//     reads second.
//  7. Lost is never silent: a reader that is ahead of the log is told so.
//  8. Everything has a deadline from the moment it exists, and retention
//     counts from the end of the run.
//  9. A page is bounded by bytes, so a reader costs bounded memory.
//  10. Readers are counted, so that "nobody reads this any more" is a fact.
//
// The package imports the standard library only.
package runregistry
