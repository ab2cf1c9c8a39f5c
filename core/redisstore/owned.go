package redisstore

import "sync"

// ownedBuckets finds the buckets that this process owns, to wake them.
type ownedBuckets struct {
	mu  sync.Mutex
	all map[string]map[int]*bucket
}

func (o *ownedBuckets) set(sink string, number int, b *bucket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[string]map[int]*bucket)
	}
	if o.all[sink] == nil {
		o.all[sink] = make(map[int]*bucket)
	}
	o.all[sink][number] = b
}

func (o *ownedBuckets) remove(sink string, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all[sink], number)
}

func (o *ownedBuckets) wake(sink string, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.all[sink][number]; b != nil {
		b.signal()
	}
}

func (o *ownedBuckets) wakeAll(sink string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.all[sink] {
		b.signal()
	}
}
