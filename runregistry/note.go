package runregistry

import (
	"context"
	"time"
)

// Noter remembers, for all instances, what must happen once to a run whichever
// of them is asked: a note stands under a name that only one of them can take.
type Noter interface {
	// Note leaves a note, to be kept for a while, and returns nil. If there is one
	// already, nothing changes and that one is returned. A note that no other call
	// leaves may be left again when the answer was lost.
	Note(ctx context.Context, id RunID, name Digest, note []byte, keep time.Duration) (found []byte, err error)
	// Rewrite replaces a note, which is kept as long as it was to be; nil removes
	// it. It does nothing when there is none.
	Rewrite(ctx context.Context, id RunID, name Digest, note []byte) error
}
