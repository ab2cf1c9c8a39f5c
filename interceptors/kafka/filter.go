package kafkasource

import "slices"

// filter finds the batches whose records are no messages: the marks at the end
// of transactions, and what belongs to aborted ones.
type filter struct {
	coming []aborted // by first offset
	active map[int64]bool
}

func newFilter(list []aborted) *filter {
	slices.SortFunc(list, func(a, b aborted) int { return int(min(max(a.first-b.first, -1), 1)) })
	return &filter{coming: list, active: make(map[int64]bool)}
}

// drops must be asked for each batch of a page, in order.
func (f *filter) drops(b *batch) bool {
	for len(f.coming) > 0 && f.coming[0].first <= b.last {
		f.active[f.coming[0].producer] = true
		f.coming = f.coming[1:]
	}
	if b.control() {
		delete(f.active, b.producer) // its transaction ends here
		return true
	}
	return b.transactional() && f.active[b.producer]
}
