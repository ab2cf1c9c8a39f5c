package main

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/core"
)

// sink spreads messages over links, those with equal keys to the same one: what
// goes through one connection keeps its order.
type sink struct {
	settings
	links []*link
	seed  maphash.Seed
}

func newSink(s settings) *sink {
	k := &sink{settings: s, seed: maphash.MakeSeed()}
	for range s.Connections {
		k.links = append(k.links, newLink(s))
	}
	return k
}

// Check refuses what STOMP or ActiveMQ can't carry as it is.
func (k *sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, k.check)
}

// Deliver sends the messages, all at once on their connections, and waits for
// the broker's receipt for each: then it is on the broker's disk.
func (k *sink) Deliver(ctx context.Context, batch []*core.Message) error {
	results, shares := make(core.BatchError, len(batch)), make([][]int, len(k.links))
	for i, m := range batch {
		if results[i] = core.Classify(core.Permanent, k.check(m)); results[i] == nil {
			n := k.linkOf(m)
			shares[n] = append(shares[n], i)
		}
	}
	var senders sync.WaitGroup
	var mu sync.Mutex
	var unreached error // of a connection; sent is whether there was any
	sent := false
	for n, share := range shares {
		if len(share) == 0 {
			continue
		}
		senders.Go(func() {
			answers, err := k.links[n].send(ctx, pick(batch, share))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unreached = err
			} else {
				sent = true
			}
			for at, i := range share {
				if results[i] = err; err == nil {
					results[i] = answers[at]
				}
			}
		})
	}
	senders.Wait()
	refused := slices.ContainsFunc(results, func(err error) bool { return core.ClassOf(err) == core.Permanent })
	switch {
	case unreached != nil && !sent && !refused: // the trouble is with the broker as a whole
		return unreached
	case slices.ContainsFunc(results, func(err error) bool { return err != nil }):
		return results
	}
	return nil
}

func (k *sink) linkOf(m *core.Message) int {
	key := m.Key
	if key == nil {
		key = []byte(m.ID)
	}
	return int(maphash.Bytes(k.seed, key) % uint64(len(k.links)))
}

func pick(batch []*core.Message, share []int) []*core.Message {
	picked := make([]*core.Message, len(share))
	for at, i := range share {
		picked[at] = batch[i]
	}
	return picked
}

// Health reports whether there is a connection, or one can be made.
func (k *sink) Health(ctx context.Context) error {
	for _, l := range k.links {
		if l.alive() {
			return nil
		}
	}
	_, err := k.links[0].connected(ctx)
	return err
}

// Close ends the connections. What they had under way is unknown.
func (k *sink) Close() error {
	for _, l := range k.links {
		l.close()
	}
	return nil
}
