// Package housetest holds the rules of this repository as tests: what a linter
// cannot see, and what a reviewer should not have to.
//
//  1. Every package says what it is for.
//  2. Files and functions stay short.
//  3. Rooms import only what ARCHITECTURE.md lets them.
//  4. Tests neither sleep nor skip.
//  5. What the documents name exists, and what exists is named: metrics,
//     problem codes, subdirectives, make targets, links.
//  6. The tree names no machine and leaves nothing open.
package housetest
