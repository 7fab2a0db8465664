// Package journal is an append-only log of records in a directory: what a
// process must find again after it was killed.
//
// It promises:
//
//  1. A record that [Journal.Append] returned for is in the hands of the
//     operating system. It survives the death of the process, not a power cut.
//  2. What is older than a position that [Journal.Sync] returned for survives a
//     power cut too. Callers that wait at the same time share one fsync.
//  3. Records come back whole and in order. What a crash tore off the end is
//     cut; damage anywhere else is a [*DamageError], never a guess.
//  4. One process at a time has the directory: the others get [ErrLocked].
//  5. On a full disk what is [New] is refused while a reserve is spent on what is
//     [Running].
//  6. [Journal.Rewrite] replaces everything by a base file; what is not written
//     into that is gone from the directory. Until the base is whole the old
//     files stay.
//  7. Appending does not allocate in steady state.
//
// # Files
//
// A directory holds "lock", "reserve", and numbered files: g.log has what was
// appended from the beginning of generation g on, g.base has everything that
// counted at some moment of generation g. A base makes all files of older
// generations obsolete. Opening replays the newest base and then the logs from
// its generation on. Because the base is written while its log grows, records of
// that log may tell again what the base already says: they must be absolute, or
// recognisable as known.
//
// A file begins with a header of 32 bytes (numbers are little-endian):
//
//	 0  8  magic "arjrnl" and two digits of the version
//	 8  8  generation
//	16  8  flags; 1: the log before this one may be damaged at its end
//	24  4  salt, random
//	28  4  CRC-32C of the bytes before it
//
// and goes on with records:
//
//	0  4  length of the payload, at least 1
//	4  4  CRC-32C of salt, length and payload
//	8  n  payload
//
// The salt keeps the content of a payload from passing for a record. A log is
// made under another name, and gets its own once it has its header and the log
// before it is whole on stable storage. Therefore only the newest log can end in
// a record that is not whole, and there the log ends: a kill tears only the last
// record, a power cut whatever was not synced.
package journal
