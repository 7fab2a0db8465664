// Package faultstore is a [runregistry.Store] that fails on command, for tests
// of what happens then. It wraps any engine.
//
// A fault is planned for a [Call] and used up by the calls that it hits, in
// the order of planning. What is not planned passes untouched.
//
//	s := faultstore.Wrap(engine)
//	s.Plan(faultstore.Append, 2, faultstore.Fail())      // two appends never arrive
//	s.Plan(faultstore.Settle, 1, faultstore.LoseReply()) // settled, but nobody is told
//	held := s.Hold(faultstore.Read)                      // reads wait ...
//	held.Release()                                       // ... until now
//	s.Down()                                             // nothing arrives any more
package faultstore
