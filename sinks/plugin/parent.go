package plugin

import (
	"context"
	"time"
)

// parentEvery is how often a plugin looks after its host. The kernel tells
// nobody when a parent dies, but for a signal that hosts on Linux ask for and
// that comes too early for the sink to be closed.
const parentEvery = 500 * time.Millisecond

// parentGone returns a channel that is closed when parent, which tells the
// process ID of the parent of the moment, no longer tells the same: whoever has
// taken over the process is not its host. It watches until ctx ends.
func parentGone(ctx context.Context, parent func() int) <-chan struct{} {
	gone, host := make(chan struct{}), parent()
	go func() {
		ticker := time.NewTicker(parentEvery)
		defer ticker.Stop()
		for parent() == host {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		close(gone)
	}()
	return gone
}
