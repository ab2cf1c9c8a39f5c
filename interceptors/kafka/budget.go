package kafkasource

import (
	"context"
	"slices"
	"sync"
)

// budget bounds what all partitions have in memory together. Who asks first is
// served first, so that none is left behind, whatever it asks for. Safe for
// concurrent use.
type budget struct {
	size int

	mu      sync.Mutex
	free    int
	waiting []*waiter
}

type waiter struct {
	n     int
	ready chan struct{}
}

func newBudget(size int) *budget { return &budget{size: size, free: size} }

// take waits until n are free, or all of the budget if it is less: what is larger
// passes alone. It returns how many are to be given back.
func (b *budget) take(ctx context.Context, n int) (int, error) {
	n = min(n, b.size)
	b.mu.Lock()
	if len(b.waiting) == 0 && n <= b.free {
		b.free -= n
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
		b.leave(w)
		return 0, context.Cause(ctx)
	}
}

// leave ends a wait, which may have been over just now.
func (b *budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := slices.Index(b.waiting, w); at >= 0 {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	} else {
		b.free += w.n
	}
	b.serve()
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

func (b *budget) serve() {
	for len(b.waiting) > 0 && b.waiting[0].n <= b.free {
		b.free -= b.waiting[0].n
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
}
