package suite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/core"
)

const (
	manyWorkers = 50
	manyEach    = 100
	manyBatch   = 20
)

func manyMessages(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	var workers sync.WaitGroup
	for range manyWorkers {
		workers.Go(func() {
			for range manyEach / manyBatch {
				e.mustDeliver(sink, e.messages(topic, manyBatch)...)
			}
		})
	}
	workers.Wait()
	e.audit(topic)
}

const (
	orderKeys    = 12
	orderWorkers = 4
	orderBatches = 5
	orderBatch   = 60
	orderTries   = 3
)

// keyOrder sends messages of several keys mixed, from several goroutines with
// keys of their own, and reads the order of each key from what arrives. Only
// what is sent once has an order: if something had to be sent again, a new topic
// is tried.
func keyOrder(e *env) {
	if !e.kit.can(Ordered) && !e.kit.can(Lanes) {
		e.lacks(string(Ordered))
	}
	sink := e.open()
	for range orderTries {
		if e.orderHolds(sink, e.kit.NewTopic(e.T)) {
			return
		}
	}
	e.Errorf("messages had to be sent again in each of %d topics", orderTries)
}

// orderHolds checks the order in topic. It returns false if that can't be told.
func (e *env) orderHolds(sink core.Sink, topic string) bool {
	e.Helper()
	sent := make(map[string]string) // ID to key
	place := make(map[string]int)   // ID to place in the key's order
	var repeats atomic.Int64
	var workers sync.WaitGroup
	for w := range orderWorkers {
		batches := make([][]*core.Message, orderBatches)
		for b := range batches {
			batches[b] = e.messages(topic, orderBatch)
			for _, m := range batches[b] {
				key := fmt.Sprintf("worker %d key %d", w, rand.IntN(orderKeys))
				m.Key = []byte(key)
				sent[m.ID], place[m.ID] = key, len(place)
			}
		}
		workers.Go(func() {
			for _, batch := range batches {
				repeats.Add(int64(e.insist(e.ample, sink, batch)))
			}
		})
	}
	workers.Wait()
	arrived := e.audit(topic)
	if repeats.Load() > 0 {
		return false
	}
	e.checkKeys(arrived, sent, place)
	return true
}

func (e *env) checkKeys(arrived []Received, sent map[string]string, place map[string]int) {
	e.Helper()
	last, lane, lanes := map[string]int{}, map[string]string{}, map[string]bool{}
	for _, r := range arrived {
		id, _ := e.identify(r)
		key := sent[id]
		if before, ok := last[key]; ok && before > place[id] && e.kit.can(Ordered) {
			e.Errorf("key %q: the message sent as number %d arrived after number %d", key, place[id], before)
			return
		}
		if before, ok := lane[key]; ok && before != r.Lane && e.kit.can(Lanes) {
			e.Errorf("key %q arrived in lane %s and in lane %s", key, before, r.Lane)
			return
		}
		last[key], lane[key], lanes[r.Lane] = place[id], r.Lane, true
	}
	if e.kit.can(Lanes) && len(lanes) < 2 {
		e.Errorf("%d keys arrived in %d lanes, want several", len(lane), len(lanes))
	}
}
