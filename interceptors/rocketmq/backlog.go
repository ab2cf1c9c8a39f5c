package rocketmqsource

import (
	"context"
	"sync"
)

// backlog is what has been fetched of a queue and is not being parked yet. One
// goroutine adds, one takes.
type backlog struct {
	mu    sync.Mutex
	pages []page
	bytes int
	added chan struct{} // holds a token when something may have been added
	taken chan struct{}
}

// page is what one answer of a broker has brought: messages up to next.
type page struct {
	messages []byte
	next     int64
}

const (
	maxPages     = 64 // 2,000 messages, as brokers give 32 at once
	maxPageBytes = 4 << 20
)

func newBacklog() *backlog {
	return &backlog{added: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// add waits for room, or for the end of ctx.
func (b *backlog) add(ctx context.Context, p page) {
	for !b.fits(p) {
		select {
		case <-ctx.Done():
			return
		case <-b.taken:
		}
	}
	poke(b.added)
}

func (b *backlog) fits(p page) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pages) >= maxPages || b.bytes >= maxPageBytes {
		return false
	}
	b.pages = append(b.pages, p)
	b.bytes += len(p.messages)
	return true
}

// takeAll waits until there is something, or returns nothing when ctx has ended.
func (b *backlog) takeAll(ctx context.Context) []page {
	for {
		if ctx.Err() != nil {
			return nil
		}
		b.mu.Lock()
		pages := b.pages
		b.pages, b.bytes = nil, 0
		b.mu.Unlock()
		if len(pages) > 0 {
			poke(b.taken)
			return pages
		}
		select {
		case <-ctx.Done():
		case <-b.added:
		}
	}
}

// poke wakes who waits for c, or whoever will.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
