package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/core"
)

// Bounds of one park script and of one flight of them.
const (
	fullFlight        = 200 // that many need not wait for another flight to land
	maxParkMessages   = 500
	maxParkBytes      = 2 << 20
	maxFlightMessages = 500
	maxFlights        = 3
	maxWaitingFlights = 16 // where each waits for replicas or disk

	// maxWaitingBytes bounds what waits for a flight, as when Redis does not
	// answer and producers give up and send anew.
	maxWaitingBytes = 256 << 20
	parkingOverhead = 256 // of memory, about, besides the payload
)

// parker gathers what many callers park at the same time into few round trips.
// A flight leaves at once if none is under way, or if it is worth it and only a
// few are; what comes meanwhile waits for the next. So a lone message waits for
// nothing, and under load the flights grow by themselves.
type parker struct {
	store   *Store
	mu      sync.Mutex
	waiting []*parking
	size    int // of what waits, with overhead
	most    int // maxWaitingBytes
	flights int
	// bucket is where messages go that may go anywhere. It moves on with each
	// flight, so that those of one flight share one script call.
	bucket  int
	tickets sync.Pool
}

// parking is one message on its way into the store. It is a copy: a caller that
// gives up has its message back at once, and the flight may still be to come.
type parking struct {
	id, sink string
	kind     parkKind
	bucket   int
	payload  []byte
	due      int64  // as park.lua wants it
	expires  int64  // likewise, with kindExpires
	member   string // in the due set, if the guess of its number is right
	receipt  *core.Receipt
	ticket   *ticket
}

// ticket tells one caller of Park that all its messages have their answers.
type ticket struct {
	left   atomic.Int64
	landed chan struct{}
}

func (t *ticket) done() {
	if t.left.Add(-1) == 0 {
		t.landed <- struct{}{}
	}
}

// ticket returns one for n messages.
func (k *parker) ticket(n int) *ticket {
	t, ok := k.tickets.Get().(*ticket)
	if !ok {
		t = &ticket{landed: make(chan struct{}, 1)}
	}
	t.left.Store(int64(n))
	return t
}

// Park implements core.Store. It returns when every message has its answer or
// ctx has ended; then those without one have core.ErrUnknown. While Redis is
// unsafe, as after a change of its eviction policy, all have core.ErrUnavailable.
func (s *Store) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if len(messages) == 0 {
		return nil
	}
	receipts := make([]core.Receipt, len(messages))
	if err := unlessDone(ctx, "park"); err != nil {
		for n, m := range messages {
			receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
		}
		return receipts
	}
	anywhere := s.parker.anywhere()
	batch := make([]parking, len(messages))
	t := s.parker.ticket(len(messages))
	for n, m := range messages {
		bucket := s.place(m, anywhere) // which makes the id, too
		batch[n] = newParking(m, bucket, &receipts[n], t)
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Durability: s.durable.level}
	}
	if err := s.parker.add(batch); err != nil {
		for n := range receipts {
			receipts[n].Err = err
		}
		return receipts
	}
	return s.parker.await(ctx, t, receipts)
}

func newParking(m *core.Message, bucket int, receipt *core.Receipt, t *ticket) parking {
	return parking{id: m.ID, sink: m.Sink, kind: kindOf(m), bucket: bucket,
		payload: appendPayload(make([]byte, 0, len(m.Body)+len(m.Topic)+len(m.Key)+16+maxTail), m),
		due:     whenMillis(core.When{At: m.DeliverAt, After: m.Delay}),
		expires: whenMillis(core.When{At: m.ExpiresAt, After: m.TTL}),
		receipt: receipt, ticket: t}
}

// await waits for the flights, which end in bounded time by themselves. A
// caller that gives up earlier gets copies, as the flight still writes into all
// but ID and Sink.
func (k *parker) await(ctx context.Context, t *ticket, receipts []core.Receipt) []core.Receipt {
	select {
	case <-t.landed:
		k.tickets.Put(t)
		return receipts
	case <-ctx.Done():
	}
	unknown := make([]core.Receipt, len(receipts))
	for n := range receipts {
		unknown[n] = core.Receipt{ID: receipts[n].ID, Sink: receipts[n].Sink,
			Err: fmt.Errorf("park: %w: %w", core.ErrUnknown, ctx.Err())}
	}
	return unknown
}

// anywhere is the bucket for messages that may go anywhere.
func (k *parker) anywhere() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bucket
}

// add queues a batch and starts a flight if there is room for one. It refuses
// what comes when too much waits.
func (k *parker) add(batch []parking) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size > k.most {
		return fmt.Errorf("park: %w: %d messages wait for Redis already", core.ErrUnavailable, len(k.waiting))
	}
	for n := range batch {
		k.waiting = append(k.waiting, &batch[n])
		k.size += batch[n].memory()
	}
	limit, least := maxFlights, fullFlight
	if k.store.durable.waits() {
		limit, least = maxWaitingFlights, 1
	}
	if k.flights == 0 || k.flights < limit && len(k.waiting) >= least {
		k.flights++
		go k.fly()
	}
	return nil
}

// memory is about how much p takes while it waits.
func (p *parking) memory() int { return len(p.payload) + parkingOverhead }

// fly parks what waits until nothing does.
func (k *parker) fly() {
	for {
		k.mu.Lock()
		n := min(len(k.waiting), maxFlightMessages)
		k.bucket = (k.bucket + 1) % k.store.keys.buckets
		if n == 0 {
			k.flights--
			k.mu.Unlock()
			return
		}
		load := k.waiting[:n:n]
		k.waiting = k.waiting[n:]
		if len(k.waiting) == 0 {
			k.waiting = nil
		}
		for _, p := range load {
			k.size -= p.memory()
		}
		k.mu.Unlock()
		k.store.parkAll(load)
		for _, p := range load {
			p.ticket.done()
		}
	}
}

// parkGroup is the messages of one call of park.lua.
type parkGroup struct {
	sink   string
	bucket int
	keys   []string
	load   []*parking
	size   int
	call   call
}

// parkAll parks a flight and writes the receipts.
func (s *Store) parkAll(load []*parking) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout+s.durable.timeout)
	defer cancel()
	if err := s.refusal(ctx); err != nil {
		for _, p := range load {
			p.receipt.Err = err
		}
		return
	}
	groups := s.group(load)
	for _, g := range groups {
		g.call = newCall(ctx, s.scripts.park, g.keys, s.parkArgs(g)...)
	}
	waited := s.commitGroups(ctx, groups)
	for n, g := range groups {
		s.readParked(g, waited[n])
	}
}

// group sorts a flight by bucket, keeping the order within each.
func (s *Store) group(load []*parking) []*parkGroup {
	open, groups := make(map[bucketAddress]*parkGroup, s.keys.buckets), make([]*parkGroup, 0, s.keys.buckets)
	for _, p := range load {
		at := bucketAddress{p.sink, p.bucket}
		g := open[at]
		if g == nil || len(g.load) == maxParkMessages || g.size+len(p.payload) > maxParkBytes && g.size > 0 {
			g = &parkGroup{sink: at.sink, bucket: at.bucket, keys: s.keys.bucket(at.sink, at.bucket)}
			open[at] = g
			groups = append(groups, g)
		}
		g.load = append(g.load, p)
		g.size += len(p.payload)
	}
	return groups
}

// commitGroups runs the groups in one pipeline for each server that holds some,
// and returns for each what its waiting for durability came to.
func (s *Store) commitGroups(ctx context.Context, groups []*parkGroup) []error {
	calls, waited := make([]call, len(groups)), make([]error, len(groups))
	for n, g := range groups {
		calls[n] = g.call
	}
	byServer(ctx, s.client, calls, func(p *part) {
		if p.node == nil {
			return
		}
		err := s.commitOn(ctx, p.node, p.calls...)
		for _, n := range p.at {
			waited[n] = err
		}
	})
	return waited
}
