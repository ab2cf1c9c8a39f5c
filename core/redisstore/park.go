package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
)

// parker gathers what many callers park at the same time into few round trips.
// A flight leaves at once if none is under way, or if it is worth it and only a
// few are; what comes meanwhile waits for the next. So a lone message waits for
// nothing, and under load the flights grow by themselves.
type parker struct {
	store   *Store
	mu      sync.Mutex
	waiting []*parking
	flights int
	// bucket is where messages go that may go anywhere. It moves on with each
	// flight, so that those of one flight share one script call.
	bucket  int
	tickets sync.Pool
}

// parking is one message on its way into the store.
type parking struct {
	message *core.Message
	bucket  int
	payload []byte
	due     int64  // as park.lua wants it
	member  string // in the due set, if the guess of its number is right
	receipt *core.Receipt
	ticket  *ticket
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
// ctx has ended; then those without one have core.ErrUnknown.
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
		p := &batch[n]
		*p = parking{message: m, bucket: s.place(m, anywhere), due: whenMillis(core.When{At: m.DeliverAt, After: m.Delay}),
			receipt: &receipts[n], ticket: t}
		p.payload = appendPayload(make([]byte, 0, len(m.Body)+len(m.Topic)+len(m.Key)+16+maxTail), m)
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Durability: s.durable.level}
	}
	s.parker.add(batch)
	return s.parker.await(ctx, t, receipts)
}

// await waits for the flights, which end in bounded time by themselves. A
// caller that gives up earlier gets copies, as the flight still writes.
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

// add queues a batch and starts a flight if there is room for one.
func (k *parker) add(batch []parking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range batch {
		k.waiting = append(k.waiting, &batch[n])
	}
	limit, least := maxFlights, fullFlight
	if k.store.durable.waits() {
		limit, least = maxWaitingFlights, 1
	}
	if k.flights == 0 || k.flights < limit && len(k.waiting) >= least {
		k.flights++
		go k.fly()
	}
}

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
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout+s.durable.timeout)
	defer cancel()
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
		at := bucketAddress{p.message.Sink, p.bucket}
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

func (s *Store) parkArgs(g *parkGroup) []any {
	touch := "0"
	if s.durable.waits() {
		touch = "1"
	}
	args := make([]any, 0, 16+4*len(g.load))
	args = append(args, s.keys.wakeChannel(s.config.Instance, g.sink), g.bucket, s.config.window(g.sink), touch)
	for load := g.load; len(load) > 0; {
		kind, n := kindOf(load[0].message), 1
		for n < len(load) && kindOf(load[n].message) == kind {
			n++
		}
		args = append(args, kind.kind, kind.priority, n)
		if kind.kind == kindGenerated {
			args = s.readyRun(args, g, load[:n])
		} else {
			args = otherRun(args, load[:n], kind)
		}
		load = load[n:]
	}
	return args
}

// readyRun appends messages as they are to be stored, if nobody else has parked
// in the bucket meanwhile. Pointers spare an allocation for each argument.
func (s *Store) readyRun(args []any, g *parkGroup, load []*parking) []any {
	seq := s.numbers.reserve(g.sink, g.bucket, len(load))
	args = append(args, seq)
	for n, p := range load {
		number := appendSeq(make([]byte, 0, seqLen+len(p.message.ID)), seq+int64(n))
		p.payload = append(append(p.payload, number...), kindGenerated)
		p.member = string(append(number, p.message.ID...))
		args = append(args, &p.message.ID, p.payload)
	}
	for _, p := range load {
		args = append(args, &p.due, &p.member)
	}
	return args
}

func otherRun(args []any, load []*parking, kind parkKind) []any {
	for _, p := range load {
		m := p.message
		args = append(args, &m.ID, &p.due, p.payload)
		if kind.kind&kindExpires != 0 {
			args = append(args, whenMillis(core.When{At: m.ExpiresAt, After: m.TTL}))
		}
	}
	return args
}

// parkKind is what the messages of a run in park.lua have in common.
type parkKind struct{ kind, priority int }

func kindOf(m *core.Message) parkKind {
	k := parkKind{priority: m.Priority}
	if m.TTL > 0 || !m.ExpiresAt.IsZero() {
		k.kind |= kindExpires
	}
	if m.Generated {
		k.kind |= kindGenerated
	}
	return k
}

// whenMillis writes a time for a script: milliseconds of the epoch, or -1 minus
// milliseconds from now. Times before the epoch are long past and become 0.
func whenMillis(when core.When) int64 {
	if when.At.IsZero() {
		return -1 - ceilMillis(when.After)
	}
	return max(0, ceilMillis(time.Duration(when.At.Nanosecond()))+when.At.Unix()*1000)
}

func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// commitGroups runs the groups in one pipeline for each server that holds some,
// and returns for each what its waiting for durability came to.
func (s *Store) commitGroups(ctx context.Context, groups []*parkGroup) []error {
	waited := make([]error, len(groups))
	if !s.durable.waits() {
		calls := make([]call, len(groups))
		for n, g := range groups {
			calls[n] = g.call
		}
		s.run(ctx, s.client, calls...)
		return waited
	}
	var flights sync.WaitGroup
	for _, part := range s.byNode(ctx, groups) {
		flights.Go(func() {
			calls := make([]call, len(part))
			for n, at := range part {
				calls[n] = groups[at].call
			}
			err := s.commit(ctx, groups[part[0]].keys[0], calls...)
			for _, at := range part {
				waited[at] = err
			}
		})
	}
	flights.Wait()
	return waited
}

// byNode returns the positions of groups, sorted by the server that holds them.
func (s *Store) byNode(ctx context.Context, groups []*parkGroup) [][]int {
	var parts [][]int
	var nodes []any
	for at, g := range groups {
		node, err := s.nodeOf(ctx, g.keys[0])
		if err != nil {
			g.call.SetErr(err)
			continue
		}
		n := slices.Index(nodes, any(node))
		if n < 0 {
			n = len(nodes)
			nodes, parts = append(nodes, node), append(parts, nil)
		}
		parts[n] = append(parts[n], at)
	}
	return parts
}

var errReply = errors.New("unexpected reply of a script")

// readParked turns the reply of one call of park.lua into receipts.
func (s *Store) readParked(g *parkGroup, waited error) {
	reply, err := g.call.Slice()
	if err == nil && (len(reply) < 4 || len(reply)%2 != 0) {
		err = errReply
	}
	if err != nil {
		err = fault("park", err)
		for _, p := range g.load {
			p.receipt.Err = err
		}
		return
	}
	if number(reply[0]) == 1 {
		s.owned.wake(g.sink, g.bucket)
	}
	from, least := number(reply[1]), number(reply[2])
	s.numbers.learn(g.sink, g.bucket, number(reply[3]))
	for _, p := range g.load {
		due := p.due
		if due < 0 {
			due = from - due - 1
		}
		p.receipt.State, p.receipt.DeliverAt = core.Scheduled, time.UnixMilli(max(due, least))
	}
	for n := 4; n < len(reply); n += 2 {
		if at := number(reply[n]); at < int64(len(g.load)) {
			readTaken(reply[n+1], g.load[at].receipt)
		}
	}
	if waited != nil {
		for _, p := range g.load {
			p.receipt.Err = cmp.Or(p.receipt.Err, waited)
		}
	}
}

// readTaken turns what park.lua says of a taken id into a receipt.
func readTaken(reply any, r *core.Receipt) {
	parts, _ := reply.([]any)
	*r = core.Receipt{ID: r.ID, Sink: r.Sink, Durability: r.Durability}
	if len(parts) != 3 {
		r.Durability, r.Err = "", core.ErrConflict
		return
	}
	place, f := text(parts[0]), parseFailure(text(parts[2]), millis(parts[1]))
	r.Duplicate, r.State, r.Attempt = true, f.state(place), f.attempts
	if !settledPlace(place) {
		r.DeliverAt = f.deliverAt
	}
}

func settledPlace(place string) bool {
	return place == "delivered" || place == "cancelled" || place == "discarded"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

func millis(v any) time.Time { return time.UnixMilli(number(v)) }
