package memstore

import "container/heap"

// queue holds waiting records, the one that leaves next first. The priority is
// not compared: a bucket has a queue for each.
type queue []*record

func (q *queue) push(r *record)   { heap.Push((*byDue)(q), r) }
func (q *queue) pop() *record     { return heap.Pop((*byDue)(q)).(*record) }
func (q *queue) remove(r *record) { heap.Remove((*byDue)(q), r.index) }

// byDue makes a heap of a queue.
type byDue []*record

func (h byDue) Len() int { return len(h) }

func (h byDue) Less(i, j int) bool {
	if c := h[i].due.Compare(h[j].due); c != 0 {
		return c < 0
	}
	return h[i].seq < h[j].seq
}

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byDue) Push(x any) {
	r := x.(*record)
	r.index = len(*h)
	*h = append(*h, r)
}

func (h *byDue) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
