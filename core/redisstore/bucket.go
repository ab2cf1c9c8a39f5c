package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// bucket is one bucket that this instance owns. Its methods belong to one
// goroutine, but for signal.
type bucket struct {
	store  *Store
	sink   string
	number int
	keys   []string
	token  string
	alarm  *alarm
	sleep  *sleeper
	woken  chan struct{} // holds one signal
	hand   []held
	takes  int64 // so far; the number of the last tells Redis what a settle is of
	clock  clockOffset
	// unswept is how many remembered ids an empty Take may be able to forget.
	unswept    int
	remembered time.Time // the last of them
}

var _ core.Bucket = (*bucket)(nil)

// held is what must be known of a message in hand to settle it.
type held struct {
	id        string
	member    string
	priority  int
	generated bool
	deliverAt time.Time
}

// String implements core.Bucket.
func (b *bucket) String() string { return fmt.Sprintf("%s:%02d", b.sink, b.number) }

// signal makes Wait return, now or when it is called next.
func (b *bucket) signal() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// Take implements core.Bucket.
func (b *bucket) Take(ctx context.Context, max int) (core.Batch, error) {
	if len(b.hand) == 0 { // else Redis refuses, and what is in hand keeps its number
		b.takes++
	}
	c := newCall(ctx, b.store.scripts.take, b.keys, b.token, min(max, core.MaxTake), b.store.config.window(b.sink), maxTakeBytes, b.takes)
	sent, err := b.run(ctx, &b.store.takes, c)
	received := time.Now()
	if err != nil {
		return core.Batch{}, err
	}
	reply, err := c.Slice()
	switch {
	case err != nil:
		return core.Batch{}, fault("take", err)
	case len(reply) == 1:
		return core.Batch{}, core.ErrOwnershipLost
	case len(reply) < 2 || len(reply)%4 != 2:
		return core.Batch{}, fault("take", errReply)
	}
	now := time.UnixMicro(number(reply[0]))
	b.clock.observe(now, sent, received)
	batch := core.Batch{Now: now}
	if next := number(reply[1]); next != 0 {
		batch.Next = time.UnixMilli(next)
	}
	b.hand = b.hand[:0]
	var damaged []core.Outcome
	for n := 2; n < len(reply); n += 4 {
		if batch.Messages, damaged, err = b.readTaken(batch.Messages, damaged, reply[n:n+4]); err != nil {
			return core.Batch{}, err
		}
	}
	if len(damaged) > 0 {
		return core.Batch{}, b.bury(ctx, damaged)
	}
	if len(batch.Messages) == 0 {
		b.swept()
	}
	return batch, nil
}

// sweptByTake is how many remembered ids a Take forgets that finds nothing, see take.lua.
const sweptByTake = 400

// swept counts such a Take, if what is remembered is old enough.
func (b *bucket) swept() {
	if time.Since(b.remembered).Milliseconds() > b.store.config.window(b.sink) {
		b.unswept = max(0, b.unswept-sweptByTake)
	}
}

// run runs a call when one of the slots is free, and tells when that was. It
// returns an error if the call was not made.
func (b *bucket) run(ctx context.Context, s *slots, c call) (sent time.Time, err error) {
	leave, err := s.enter(ctx, b.store.serving, c.key())
	if err != nil {
		return time.Time{}, fmt.Errorf("wait for a slot at the server of %s: %w: %w", b, core.ErrUnavailable, err)
	}
	defer leave()
	sent = time.Now()
	b.store.run(ctx, b.store.serving, c)
	return sent, nil
}

// maxTakeBytes bounds the records of one Take, so that large bodies make
// smaller batches and not replies of a hundred megabytes.
const maxTakeBytes = 4 << 20

// bury makes dead letters of records that can't be read, so that they don't
// hold up those behind them, and puts the rest of the batch back.
func (b *bucket) bury(ctx context.Context, damaged []core.Outcome) error {
	if err := b.settle(ctx, damaged); err != nil {
		return err
	}
	return fmt.Errorf("take from %s: %d records such as %q: %w; they are dead letters now", b, len(damaged), damaged[0].ID, errRecord)
}

// readTaken appends the messages of one priority, and notes them as in hand.
func (b *bucket) readTaken(messages []*core.Message, damaged []core.Outcome, part []any) ([]*core.Message, []core.Outcome, error) {
	priority := int(number(part[0]))
	members, _ := part[1].([]any)
	records, _ := part[2].([]any)
	failures, _ := part[3].([]any)
	if len(members) != 2*len(records) || len(failures) != 0 && len(failures) != len(records) {
		return nil, nil, fault("take", errReply)
	}
	messages = slices.Grow(messages, len(records))
	b.hand = slices.Grow(b.hand, len(records))
	space := make([]core.Message, len(records))
	for n := range records {
		member := text(members[2*n])
		if len(member) <= seqLen {
			return nil, nil, fault("take", errReply)
		}
		m := &space[n]
		m.ID, m.Sink = member[seqLen:], b.sink
		failed := failure{deliverAt: millisText(members[2*n+1])}
		if len(failures) > 0 {
			failed = parseFailure(text(failures[n]), failed.deliverAt)
		}
		m.DeliverAt, m.Attempt, m.CutOff = failed.deliverAt, failed.attempts+1, failed.reason == reasonCrashed
		if err := decodeRecord(text(records[n]), m); err != nil {
			damaged = append(damaged, core.Outcome{ID: m.ID, State: core.Dead, Attempts: m.Attempt - 1, Reason: "damaged", Error: err.Error()})
		}
		b.hand = append(b.hand, held{m.ID, member, priority, m.Generated, m.DeliverAt})
		messages = append(messages, m)
	}
	return messages, damaged, nil
}

func millisText(v any) time.Time {
	var ms int64
	for _, c := range text(v) {
		if c < '0' || c > '9' {
			break
		}
		ms = ms*10 + int64(c-'0')
	}
	return time.UnixMilli(ms)
}

// Settle implements core.Bucket.
func (b *bucket) Settle(ctx context.Context, outcomes ...core.Outcome) error {
	if len(outcomes) == 0 && len(b.hand) == 0 {
		return nil
	}
	return b.settle(ctx, outcomes)
}

// settle is Settle also when this process knows of nothing in hand.
func (b *bucket) settle(ctx context.Context, outcomes []core.Outcome) error {
	groups, n := b.settleGroups(outcomes)
	args := append(make([]any, 0, 4+len(groups)), b.token, b.store.config.window(b.sink), b.takes, n)
	c := newCall(ctx, b.store.scripts.settle, b.keys, append(args, groups...)...)
	if _, err := b.run(ctx, &b.store.settles, c); err != nil {
		return err
	}
	done, err := c.Int()
	switch {
	case err != nil:
		return fault("settle", err)
	case done == 0:
		return core.ErrOwnershipLost
	}
	b.hand = b.hand[:0]
	return nil
}

// settleGroups sorts outcomes into the groups that settle.lua takes. Of a batch
// that went well, all of a priority is one group.
func (b *bucket) settleGroups(outcomes []core.Outcome) (args []any, groups int) {
	g := settleArgs{args: make([]any, 0, len(outcomes)+8), countAt: -1}
	var inHand, delivered [core.MaxPriority + 1]int
	for _, h := range b.hand {
		inHand[h.priority]++
	}
	hands, find := make([]held, len(outcomes)), b.finder()
	for n, o := range outcomes {
		h, ok := find(n, o.ID)
		if hands[n] = h; ok && o.State == core.Delivered {
			delivered[h.priority]++
		}
	}
	var remember []any
	for p, held := range inHand {
		if held > 0 {
			remember = b.settlePriority(&g, p, delivered[p] == held, outcomes, hands, remember)
		}
	}
	if len(remember) > 0 && b.store.config.window(b.sink) > 0 {
		g.add("m", 0, remember...)
		g.args[g.countAt] = len(remember)
		b.unswept, b.remembered = b.unswept+len(remember), time.Now()
	}
	return g.args, g.groups
}

// settlePriority adds the outcomes of one priority, in their order, so that all
// of a priority is one group in whatever order the outcomes of several came.
// It appends to remember the ids that are not to be parked again for a while.
func (b *bucket) settlePriority(g *settleArgs, p int, all bool, outcomes []core.Outcome, hands []held, remember []any) []any {
	for n, o := range outcomes {
		h := hands[n]
		switch {
		case h.id == "" || h.priority != p: // not in hand, or not here
			continue
		case o.State != core.Delivered:
			g.fail(o, h)
			continue
		case all:
			g.add("a", p, h.id)
		default:
			g.add("d", p, h.member)
		}
		if !h.generated {
			remember = append(remember, h.id)
		}
	}
	return remember
}

// settleArgs collects the arguments of settle.lua.
type settleArgs struct {
	args     []any
	groups   int
	how      string
	priority int
	countAt  int // where the count of the open group stands
}

// add puts an item into a group with its neighbours of the same kind.
func (g *settleArgs) add(how string, priority int, item ...any) {
	if g.countAt < 0 || how != g.how || priority != g.priority {
		g.args = append(g.args, how, priority, 0)
		g.how, g.priority, g.countAt = how, priority, len(g.args)-1
		g.groups++
	}
	g.args[g.countAt] = g.args[g.countAt].(int) + 1
	g.args = append(g.args, item...)
}

func (g *settleArgs) fail(o core.Outcome, h held) {
	if o.State == core.Expired {
		o.Reason = reasonExpired
	}
	failed := failure{o.Attempts, h.deliverAt, o.Reason, o.Error}.String()
	if o.State == core.Retrying {
		g.add("b", h.priority, h.member, ceilMillis(o.After), failed)
		return
	}
	g.add("x", h.priority, h.member, failed)
}

// finder finds each message in hand once. Outcomes mostly come in the order of
// the hand, so a look in the same place mostly does.
func (b *bucket) finder() func(at int, id string) (held, bool) {
	used := make([]bool, len(b.hand))
	var byID map[string]int
	return func(at int, id string) (held, bool) {
		if at >= len(b.hand) || b.hand[at].id != id {
			if byID == nil {
				byID = make(map[string]int, len(b.hand))
				for n, h := range b.hand {
					byID[h.id] = n
				}
			}
			var ok bool
			if at, ok = byID[id]; !ok {
				return held{}, false
			}
		}
		if used[at] {
			return held{}, false
		}
		used[at] = true
		return b.hand[at], true
	}
}

// Wait implements core.Bucket.
func (b *bucket) Wait(ctx context.Context, next time.Time) error {
	b.alarm.set(b.sleep, b.wait(next))
	defer b.alarm.unset(b.sleep)
	select {
	case <-b.sleep.c:
	case <-b.woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// idleGuards is after about how many guard periods an owner looks into its bucket
// though nothing woke it and the renewals tell that it has missed nothing.
const idleGuards = 12

// wait is for how long to wait. A long wait ends a little before next, so that what
// was found out of Redis's clock is not old when the message is due.
func (b *bucket) wait(next time.Time) time.Duration {
	guard := b.store.config.Guard
	look := idleGuards*guard/2 + rand.N(idleGuards*guard)
	if b.unswept > 0 {
		look = guard
	}
	if next.IsZero() {
		return look
	}
	left := b.clock.until(next)
	if left > guard {
		left -= left / 16
	}
	return min(look, left)
}

// clockOffset estimates Redis's clock from the quickest exchange of late.
type clockOffset struct {
	offset time.Duration // Redis's clock minus ours, in the middle of the exchange
	travel time.Duration // half of how long the exchange took
	local  time.Time     // of ours; its monotonic reading is what counts
	known  bool
}

// offsetAge is after how long a quick exchange gives way to a newer one, since
// clocks drift.
const offsetAge = 10 * time.Second

func (c *clockOffset) observe(redis, sent, received time.Time) {
	travel := received.Sub(sent) / 2
	if c.known && travel > c.travel && received.Sub(c.local) < offsetAge {
		return
	}
	middle := sent.Add(travel)
	*c = clockOffset{offset: redis.Sub(middle), travel: travel, local: middle, known: true}
}

// leastWait keeps a wait that was just too short from becoming a busy loop.
const leastWait = 20 * time.Microsecond

// until is how long to wait so that a request then sent arrives in Redis at t.
func (c *clockOffset) until(t time.Time) time.Duration {
	now := c.local.Add(time.Since(c.local) + c.offset)
	return max(leastWait, t.Sub(now)-c.travel)
}

var errStopping = errors.New("bucket is wanted back")
