package redisstore

import (
	"context"
	"errors"
	"fmt"
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
	woken  chan struct{} // holds one signal
	hand   []held
	takes  int64 // so far; the number of the last tells Redis what a settle is of
	clock  clockOffset
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
	sent := time.Now()
	b.store.run(ctx, b.store.serving, c)
	received := time.Now()
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
	batch := core.Batch{Now: now, Local: b.clock.here(now, sent, received)}
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
	return batch, nil
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

// settlePart is how many messages that failed one call of settle.lua tells of: each is
// several times the work of one that was delivered, and other sinks wait meanwhile.
const settlePart = 100

// settle is Settle also when this process knows of nothing in hand.
func (b *bucket) settle(ctx context.Context, outcomes []core.Outcome) error {
	parts := b.settleParts(outcomes)
	for n, part := range parts {
		more := 0
		if n+1 < len(parts) {
			more = 1
		}
		args := append(make([]any, 0, 5+len(part.args)), b.token, b.store.config.window(b.sink), b.takes, more, part.groups)
		c := newCall(ctx, b.store.scripts.settle, b.keys, append(args, part.args...)...)
		b.store.run(ctx, b.store.serving, c)
		done, err := c.Int()
		switch {
		case err != nil:
			return fault("settle", err)
		case done == 0:
			return core.ErrOwnershipLost
		}
	}
	b.hand = b.hand[:0]
	return nil
}

// settleParts sorts outcomes into the groups that settle.lua takes, in one part or
// more. Of a batch that went well, all of a priority is one group.
func (b *bucket) settleParts(outcomes []core.Outcome) []settleArgs {
	var lots [core.MaxPriority + 1]settleLot
	for _, h := range b.hand {
		lots[h.priority].inHand++
	}
	var remember []any
	find := b.finder()
	for n, o := range outcomes {
		h, ok := find(n, o.ID)
		if !ok {
			continue
		}
		lots[h.priority].add(o, h)
		if o.State == core.Delivered && !h.generated {
			remember = append(remember, h.id)
		}
	}
	part := settleArgs{args: make([]any, 0, len(outcomes)+8)}
	part.add("m", 0, 1, remember)
	for p := range lots {
		part.addDelivered(p, &lots[p])
	}
	parts, room := []settleArgs{part}, settlePart
	for p := range lots {
		parts, room = addFailed(parts, room, "b", p, 3, lots[p].back)
		parts, room = addFailed(parts, room, "x", p, 2, lots[p].dead)
	}
	return parts
}

// settleLot is what became of the messages of one priority: what settle.lua is to
// be told, in the order of the outcomes.
type settleLot struct {
	inHand         int
	ids, delivered []any // delivered: members
	back, dead     []any
}

func (l *settleLot) add(o core.Outcome, h held) {
	if o.State == core.Delivered {
		l.ids, l.delivered = append(l.ids, h.id), append(l.delivered, h.member)
		return
	}
	if o.State == core.Expired {
		o.Reason = reasonExpired
	}
	failed := failure{o.Attempts, h.deliverAt, o.Reason, o.Error}.String()
	if o.State == core.Retrying {
		l.back = append(l.back, h.member, ceilMillis(o.After), failed)
		return
	}
	l.dead = append(l.dead, h.member, failed)
}

// settleArgs collects the groups of one call of settle.lua.
type settleArgs struct {
	args   []any
	groups int
}

// add appends a group, unless it is empty. Each item is width arguments.
func (g *settleArgs) add(how string, priority, width int, items []any) {
	if len(items) == 0 {
		return
	}
	g.args = append(append(g.args, how, priority, len(items)/width), items...)
	g.groups++
}

func (g *settleArgs) addDelivered(priority int, l *settleLot) {
	if len(l.delivered) == l.inHand {
		g.add("a", priority, 1, l.ids)
	} else {
		g.add("d", priority, 1, l.delivered)
	}
}

// addFailed appends a group of messages that failed, in as many parts as it takes if
// the last one has room left. It returns the parts, and the room in the last.
func addFailed(parts []settleArgs, room int, how string, priority, width int, items []any) ([]settleArgs, int) {
	for len(items) > 0 {
		if room == 0 {
			parts, room = append(parts, settleArgs{}), settlePart
		}
		n := min(room, len(items)/width)
		parts[len(parts)-1].add(how, priority, width, items[:n*width])
		items, room = items[n*width:], room-n
	}
	return parts, room
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
	wait := b.store.config.Guard
	if !next.IsZero() {
		wait = min(wait, b.clock.until(next))
	}
	b.alarm.set(wait)
	select {
	case <-b.alarm.c:
	case <-b.woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
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

// here is when, by our own clock, Redis's clock was at now: between sent and
// received, and as early as the quickest exchange of late allows. So lateness that
// is counted from there is too long by up to that exchange's time, and not too short.
func (c *clockOffset) here(now, sent, received time.Time) time.Time {
	at := c.local.Add(now.Sub(c.local.Add(c.offset)) - c.travel)
	switch {
	case at.Before(sent):
		return sent
	case at.After(received): // a clock was set
		return received
	}
	return at
}

// leastWait keeps a wait that was just too short from becoming a busy loop.
const leastWait = 20 * time.Microsecond

// until is how long to wait so that a request then sent arrives in Redis at t.
func (c *clockOffset) until(t time.Time) time.Duration {
	now := c.local.Add(time.Since(c.local) + c.offset)
	return max(leastWait, t.Sub(now)-c.travel)
}

var errStopping = errors.New("bucket is wanted back")
