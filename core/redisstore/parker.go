package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Bounds of one call of park.lua, of a batch of such calls, and of what waits.
const (
	maxParkMessages  = 500
	maxParkBytes     = 2 << 20
	maxBatchMessages = 4096
	maxBatchBytes    = 8 << 20

	fullBatch         = 200 // that many need not wait for another batch
	maxBatches        = 3   // on their way to one server
	maxWaitingBatches = 16  // likewise, where each waits for replicas or disk

	// maxQueueBytes bounds what waits for one server, as when it does not answer and
	// producers give up and send again.
	maxQueueBytes = 256 << 20
)

// parker gathers what many callers park at the same time into few round trips. Each
// server has a queue of its own: one that does not answer holds up nobody else.
type parker struct {
	store  *Store
	mu     sync.Mutex
	queues map[string]*parkQueue // by the address of the server
	most   int                   // maxQueueBytes
	// bucket is where messages go that may go anywhere, and room for how many more.
	bucket, room int
}

// parkQueue is what waits for one server. A batch leaves at once if none is on its
// way, or if it is worth it and only a few are; what comes meanwhile waits for the
// next. So a lone message waits for nothing, and under load the batches grow by
// themselves.
type parkQueue struct {
	parker  *parker
	waiting []*pending
	size    int // of what waits, with overhead
	batches int // on their way
	// split: a batch on its way has the first messages of an ordered call, and the
	// others are the next to leave. They must not overtake.
	split bool
}

// anywhere is the bucket for messages that may go anywhere. It moves on when it has
// been given a batch, so that those of one batch share one script call.
func (k *parker) anywhere(messages []*core.Message) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.room <= 0 {
		k.moveOn()
	}
	k.room -= len(messages)
	return k.bucket
}

func (k *parker) moveOn() {
	k.bucket, k.room = (k.bucket+1)%k.store.keys.buckets, maxParkMessages
}

// add queues the messages of one call, and has them leave if they may. It refuses
// what comes when too much waits.
func (k *parker) add(ctx context.Context, all []pending) {
	servers := make([]string, len(all))
	for n := range all {
		servers[n] = k.store.serverOf(ctx, all[n].sink, all[n].bucket)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range all {
		q, p := k.queue(servers[n]), &all[n]
		if q.size > k.most {
			p.refuse(errQueueFull(len(q.waiting)))
			continue
		}
		q.waiting = append(q.waiting, p)
		q.size += p.memory()
	}
	for _, q := range k.queues {
		q.start()
	}
}

// queue returns that of a server. There are as many as there have been servers.
func (k *parker) queue(server string) *parkQueue {
	q := k.queues[server]
	if q == nil {
		if k.queues == nil {
			k.queues = make(map[string]*parkQueue)
		}
		q = &parkQueue{parker: k}
		k.queues[server] = q
	}
	return q
}

// withdraw answers with err what was not sent yet.
func (k *parker) withdraw(all []pending, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range all {
		if p := &all[n]; p.place == placeQueue {
			p.refuse(err) // it stays in the queue, and next passes over it
		}
	}
}

// start has a batch leave if one may; the parker is locked.
func (q *parkQueue) start() {
	limit, least := maxBatches, fullBatch
	if q.parker.store.durable.waits() {
		limit, least = maxWaitingBatches, 1
	}
	if len(q.waiting) == 0 || q.split || q.batches > 0 && (q.batches >= limit || len(q.waiting) < least) {
		return
	}
	q.batches++
	go q.run()
}

// run parks what waits until nothing does.
func (q *parkQueue) run() {
	for {
		b := q.next()
		if b == nil {
			return
		}
		q.parker.store.park(b)
	}
}

// next takes the next batch out of the queue; nil if there is none.
func (q *parkQueue) next() *parkBatch {
	k := q.parker
	k.mu.Lock()
	defer k.mu.Unlock()
	k.moveOn()
	b := &parkBatch{queue: q, groups: make(map[bucketAddress]*parkGroup)}
	taken := 0
	for _, p := range q.waiting {
		if q.split || p.place == placeQueue && !b.take(p) {
			break
		}
		taken++
		q.size -= p.memory()
	}
	q.waiting = q.waiting[taken:]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	if len(b.groups) == 0 {
		q.batches--
		return nil
	}
	b.split = len(q.waiting) > 0 && q.waiting[0].call == b.last && b.last.ordered
	q.split = q.split || b.split
	b.left = len(b.groups)
	return b
}

// landed is told when a group of b has its answers.
func (q *parkQueue) landed(b *parkBatch) {
	q.parker.mu.Lock()
	defer q.parker.mu.Unlock()
	if b.left--; b.left == 0 && b.split {
		q.split = false
		q.start()
	}
}

// serverOf is the address of the server that holds a bucket; empty where there is but
// one, or it could not be found out, which the batch finds out then.
func (s *Store) serverOf(ctx context.Context, sink string, bucket int) string {
	if _, ok := s.client.(*redis.ClusterClient); !ok {
		return ""
	}
	node, err := nodeOf(ctx, s.client, s.keys.owner(sink, bucket))
	if err != nil {
		return ""
	}
	return node.(*redis.Client).Options().Addr
}
