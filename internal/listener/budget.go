package listener

import (
	"sync/atomic"
)

// Budget bounds the bytes of all unanswered requests of a listener. It is safe for
// concurrent use.
type Budget struct {
	most int64
	used atomic.Int64
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Take adds bytes and reports whether they are within the budget. They are added in any
// case; Give returns them.
func (b *Budget) Take(n int) bool { return b.used.Add(int64(n)) <= b.most }

// Give returns bytes that Take has added.
func (b *Budget) Give(n int) { b.used.Add(-int64(n)) }

// Spent reports whether the budget is exceeded.
func (b *Budget) Spent() bool { return b.used.Load() > b.most }
