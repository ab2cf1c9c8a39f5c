package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Bounds of one call of park.lua, of a batch of such calls, and of what waits.
const (
	maxParkMessages  = 500
	maxParkBytes     = 2 << 20
	maxBatchMessages = 4096
	maxBatchBytes    = 8 << 20

	fullBatch         = 200 // that many need not wait for another batch,
	worthwhile        = 16  // if they are at least so many a bucket
	maxBatches        = 3   // on their way to one server
	maxWaitingBatches = 16  // likewise, where each waits for replicas or disk

	// A batch that is not worth it waits for the callers of the last one to come back
	// with more, for this share of the time that the last one took, within bounds.
	lingerShare = 8
	leastLinger = 250 * time.Microsecond // else not at all
	mostLinger  = 5 * time.Millisecond

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
	limit  int                   // of the batches that are on their way to one server
	least  int                   // messages that need not wait for another batch,
	each   int                   // if they are so many a bucket
	unsafe error                 // what the last look at all servers has found
	// bucket is where messages go that may go anywhere, and room for how many more.
	bucket, room int
}

// parkQueue is what waits for one server. A batch leaves at once if none is on its
// way, or if it is worth it and only a few are; what comes meanwhile waits for the
// next. So a lone message waits for nothing, and under load the batches grow by
// themselves. Where messages spread over many buckets, and so over many calls of
// park.lua, one that could leave waits a little until it has as many as the last one:
// its callers have just been answered, and would find this one gone.
type parkQueue struct {
	parker  *parker
	check   healthCheck
	waiting []*parkBatch // none is empty; the last takes what comes
	size    int          // of what waits, with overhead
	batches int          // on their way
	enough  int          // messages that need not wait
	until   time.Time    // when the others need not either
	// split: a batch on its way has the first messages of an ordered call, and the
	// next has the others. They must not overtake.
	split bool
}

// bound sets the bounds for a level of durability.
func (k *parker) bound(d durability) {
	k.most, k.limit, k.least, k.each = maxQueueBytes, maxBatches, fullBatch, worthwhile
	if d.waits() {
		k.limit, k.least, k.each = maxWaitingBatches, 1, 0
	}
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
		if q, p := k.queue(servers[n]), &all[n]; q.size > k.most {
			p.refuse(errQueueFull(q.size))
		} else {
			q.add(p)
		}
	}
	for _, q := range k.queues {
		q.start()
	}
}

// saw takes in what a look at all servers has found.
func (k *parker) saw(unsafe error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsafe = unsafe
	for _, q := range k.queues {
		q.check.saw(unsafe)
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
		q.check.saw(k.unsafe)
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
			p.refuse(err) // its batch leaves without it
		}
	}
}

// add puts p into the last batch, or begins one.
func (q *parkQueue) add(p *pending) {
	q.size += p.memory()
	if last := len(q.waiting) - 1; last >= 0 {
		b := q.waiting[last]
		if b.take(p) {
			return
		}
		b.full, b.split = true, p.call == b.last.call && p.call.ordered
	}
	b := &parkBatch{queue: q, groups: make(map[bucketAddress]*parkGroup)}
	b.take(p)
	q.waiting = append(q.waiting, b)
}

// leaves reports whether the first batch that waits may leave while so many others are on
// their way; the parker is locked.
func (q *parkQueue) leaves(others int) bool {
	if len(q.waiting) == 0 || q.split {
		return false
	}
	b := q.waiting[0]
	dense := b.count >= q.parker.each*len(b.groups)
	if others == 0 {
		return b.full || dense || b.count >= q.enough || !time.Now().Before(q.until)
	}
	return others < q.parker.limit && (b.full || dense && b.count >= q.parker.least)
}

// linger has batches that are smaller than b wait for those whom b has answered,
// depending on how long it took.
func (q *parkQueue) linger(b *parkBatch, took time.Duration) {
	q.parker.mu.Lock()
	defer q.parker.mu.Unlock()
	wait := min(took/lingerShare, mostLinger)
	if wait < leastLinger {
		q.until = time.Time{}
		return
	}
	q.enough, q.until = b.count, time.Now().Add(wait)
	time.AfterFunc(wait, func() {
		q.parker.mu.Lock()
		defer q.parker.mu.Unlock()
		q.start()
	})
}

// start has a batch leave if one may; the parker is locked.
func (q *parkQueue) start() {
	if q.leaves(q.batches) {
		q.batches++
		go q.run()
	}
}

// run parks what waits until nothing may leave.
func (q *parkQueue) run() {
	for {
		b := q.next()
		if b == nil {
			return
		}
		began := time.Now()
		q.parker.store.park(b)
		q.linger(b, time.Since(began))
	}
}

// next takes the next batch out of the queue; nil if none may leave.
func (q *parkQueue) next() *parkBatch {
	k := q.parker
	k.mu.Lock()
	defer k.mu.Unlock()
	k.moveOn()
	for q.leaves(q.batches - 1) {
		b := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.size -= b.memory
		if b.depart(); b.left > 0 {
			q.split = b.split
			return b
		}
	}
	q.batches--
	return nil
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
