// Package entry is the language of the embedded store's journal: what a record
// of it says about runs.
//
// It promises:
//
//  1. An entry is absolute: told twice, or again after a later one was told, it
//     leaves the same run as told once, as long as everything after it follows.
//  2. One function both writes and reads the fields of an entry. Fields are only
//     ever added at the end: a reader takes those that are not there as zero and
//     passes over those that it does not know.
//  3. No input makes [Read] panic, or take more memory than a small multiple of
//     its size.
//  4. Writing frames does not allocate.
//
// A journal record is a sequence of entries that happen together. An entry is
// one byte for its kind, four for the length of its body (little-endian), and
// the body: numbers as varints, texts with their length before them. Runs are
// named by a number that is unique in the directory.
package entry
