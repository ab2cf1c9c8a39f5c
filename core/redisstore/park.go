package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Bounds of one park script and of one flight of them.
const (
	maxParkMessages   = 500
	maxParkBytes      = 2 << 20
	maxFlightMessages = 8000
	maxFlights        = 4
)

// parker gathers what many callers park at the same time into few round trips.
// A flight leaves at once if fewer than maxFlights are under way; what comes
// meanwhile waits for the next. So a lone message waits for nothing, and under
// load the flights grow by themselves.
type parker struct {
	store   *Store
	mu      sync.Mutex
	waiting []*parking
	flights int
}

// parking is one message on its way into the store.
type parking struct {
	message *core.Message
	bucket  int
	payload []byte
	receipt *core.Receipt
	done    *sync.WaitGroup
}

// Park implements core.Store. It returns when every message has its answer or
// ctx has ended; then those without one have core.ErrUnknown.
func (s *Store) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	receipts := make([]core.Receipt, len(messages))
	if err := unlessDone(ctx, "park"); err != nil {
		for n, m := range messages {
			receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Err: err}
		}
		return receipts
	}
	batch := make([]parking, len(messages))
	var done sync.WaitGroup
	done.Add(len(messages))
	for n, m := range messages {
		p := &batch[n]
		*p = parking{message: m, bucket: s.place(m), receipt: &receipts[n], done: &done}
		p.payload = appendPayload(make([]byte, 0, len(m.Body)+len(m.Topic)+len(m.Key)+16), m)
		receipts[n] = core.Receipt{ID: m.ID, Sink: m.Sink, Durability: s.durable.level}
	}
	s.parker.add(batch)
	return s.parker.await(ctx, &done, receipts)
}

// await waits for the flights, which end in bounded time by themselves. A
// caller that gives up earlier gets copies, as the flight still writes.
func (k *parker) await(ctx context.Context, done *sync.WaitGroup, receipts []core.Receipt) []core.Receipt {
	if ctx.Done() == nil {
		done.Wait()
		return receipts
	}
	landed := make(chan struct{})
	go func() { done.Wait(); close(landed) }()
	select {
	case <-landed:
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

// add queues a batch and starts a flight if there is room for one.
func (k *parker) add(batch []parking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range batch {
		k.waiting = append(k.waiting, &batch[n])
	}
	if k.flights < maxFlights {
		k.flights++
		go k.fly()
	}
}

// fly parks what waits until nothing does.
func (k *parker) fly() {
	for {
		k.mu.Lock()
		n := min(len(k.waiting), maxFlightMessages)
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
			p.done.Done()
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
	type address struct {
		sink   string
		bucket int
	}
	open, groups := make(map[address]*parkGroup, s.keys.buckets), make([]*parkGroup, 0, s.keys.buckets)
	for _, p := range load {
		at := address{p.message.Sink, p.bucket}
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
	args := make([]any, 0, 4+4*len(g.load))
	args = append(args, s.keys.wakeChannel(s.config.Instance, g.sink), g.bucket, s.config.window(g.sink), touch)
	for _, p := range g.load {
		flags := []byte{'0' + byte(p.message.Priority), '0'}
		if p.message.Generated {
			flags[1] = '1'
		}
		args = append(args, p.message.ID, flags, parkTimes(p.message), p.payload)
	}
	return args
}

// parkTimes writes the due time and the expiry of m as park.lua wants them.
func parkTimes(m *core.Message) []byte {
	b := strconv.AppendInt(make([]byte, 0, 32), whenMillis(core.When{At: m.DeliverAt, After: m.Delay}), 10)
	b = append(b, ' ')
	switch {
	case m.TTL > 0:
		return strconv.AppendInt(b, whenMillis(core.When{After: m.TTL}), 10)
	case !m.ExpiresAt.IsZero():
		return strconv.AppendInt(b, m.ExpiresAt.UnixMilli(), 10)
	}
	return append(b, '0')
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
	if err == nil && len(reply) != len(g.load)+1 {
		err = errReply
	}
	if err != nil {
		err = fault("park", err)
		for _, p := range g.load {
			p.receipt.Err = err
		}
		return
	}
	if wake, _ := reply[0].(int64); wake == 1 {
		s.owned.wake(g.sink, g.bucket)
	}
	for n, p := range g.load {
		readReceipt(reply[n+1], p.receipt)
		if p.receipt.Err == nil && waited != nil {
			p.receipt.Err = waited
		}
	}
}

func readReceipt(reply any, r *core.Receipt) {
	switch v := reply.(type) {
	case int64:
		r.State, r.DeliverAt = core.Scheduled, time.UnixMilli(v)
	case []any:
		switch {
		case len(v) == 1:
			r.Err = core.ErrConflict
		case len(v) == 4:
			r.Duplicate = true
			place, due, failed := text(v[1]), millis(v[2]), text(v[3])
			f := parseFailure(failed, due)
			r.State, r.Attempt, r.DeliverAt = f.state(place), f.attempts, f.deliverAt
			if settledPlace(place) {
				r.DeliverAt = time.Time{}
			}
		}
	default:
		r.Err = fault("park", errReply)
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
