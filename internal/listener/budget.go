package listener

import (
	"sync/atomic"
)

// Budget bounds the bytes of all requests that a listener has received and not
// answered. Safe for concurrent use.
type Budget struct {
	most int64
	used atomic.Int64
}

// NewBudget returns a Budget of so many bytes.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Take counts bytes in, and reports whether there was room for them. They count in
// any case: Give them back.
func (b *Budget) Take(n int) bool { return b.used.Add(int64(n)) <= b.most }

// Give takes back what Take was told.
func (b *Budget) Give(n int) { b.used.Add(-int64(n)) }

// Spent reports whether there is more than there may be.
func (b *Budget) Spent() bool { return b.used.Load() > b.most }
