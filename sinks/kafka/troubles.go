package kafka

import (
	"sync"
	"time"
)

// troubles remembers which partitions could not be written to, so that Deliver
// waits for a new leader when one moves, but not again and again when there is
// none: messages for other partitions would wait with it. The zero value
// remembers nothing.
type troubles struct {
	mu sync.Mutex
	of map[route]trouble
}

type trouble struct{ since, last time.Time }

const (
	// patience is how long a Deliver tries to find a new leader.
	patience = 2 * time.Second
	// troubleMemory is after how long without a try a trouble is a new one.
	troubleMemory = time.Minute
)

// bearable returns those of places whose partitions are worth another round: they
// have another leader by now, or may have one soon. The others' trouble becomes
// that of their partitions.
func (t *troubles) bearable(d *delivery, places []int, topics map[string]*topic) []int {
	now := time.Now()
	var worth, lost []int
	t.mu.Lock()
	for _, place := range places {
		r := d.routes[place]
		leader := topics[r.topic].leader(r.partition)
		if bear := t.bear(r, now); bear || leader != "" && leader != d.leaders[place] {
			worth = append(worth, place)
		} else {
			lost = append(lost, place)
		}
	}
	t.mu.Unlock()
	d.blameRoute(lost)
	return worth
}

func (t *troubles) bear(r route, now time.Time) bool {
	if t.of == nil {
		t.of = make(map[route]trouble)
	}
	known, ok := t.of[r]
	if !ok || now.Sub(known.last) > troubleMemory {
		known = trouble{since: now}
	}
	known.last = now
	t.of[r] = known
	return now.Sub(known.since) < patience
}

// forget drops the troubles of partitions that have confirmed a message.
func (t *troubles) forget(d *delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) == 0 {
		return
	}
	for place, r := range d.routes {
		if _, ok := t.of[r]; ok && d.confirmedAt(place) {
			delete(t.of, r)
		}
	}
}
