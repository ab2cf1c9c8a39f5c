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
	store    *Store
	sink     string
	number   int
	keys     []string
	token    string
	alarm    *alarm
	sleep    *sleeper
	woken    chan struct{} // holds one signal
	inFlight []held
	// failing: so many messages failed of late that takes use the slots of such calls.
	failing bool
	takes   int64 // so far; the number of the last tells Redis what a settle is of
	newer   newerRecords
	clock   clockOffset
	// unswept is how many remembered ids an empty Take may be able to forget.
	unswept    int
	remembered time.Time // the last of them
}

var _ core.Bucket = (*bucket)(nil)

// held is what must be known of a message in flight to settle it.
type held struct {
	id        string
	member    string
	priority  int
	generated bool
	deliverAt time.Time
	message   *core.Message // nil without Config.Final
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
	reply, batch, err := b.ask(ctx, max)
	if err != nil {
		return core.Batch{}, err
	}
	b.inFlight, b.newer.count = b.inFlight[:0], 0
	var damaged []core.Outcome
	for n := 2; n < len(reply); n += 4 {
		if batch.Messages, damaged, err = b.readTaken(batch.Messages, damaged, reply[n:n+4]); err != nil {
			return core.Batch{}, err
		}
	}
	if len(damaged) > 0 {
		return core.Batch{}, b.bury(ctx, damaged)
	}
	if b.newer.count > 0 {
		return b.leaveNewer(ctx, batch, max)
	}
	if len(batch.Messages) == 0 {
		b.swept()
	}
	return batch, nil
}

// ask runs take.lua. It returns the reply, whose messages are still to be read, and a
// batch with the times in it.
func (b *bucket) ask(ctx context.Context, max int) ([]any, core.Batch, error) {
	if len(b.inFlight) == 0 { // else Redis refuses, and what is in flight keeps its number
		b.takes++
	}
	at := &b.store.takes
	if b.failing {
		at, max = &b.store.failing, min(max, failingTake)
	}
	c := newCall(ctx, b.store.scripts.take, b.keys, b.token, min(max+b.newer.count, core.MaxTake), b.store.config.window(b.sink), maxTakeBytes, b.takes)
	sent, err := b.run(ctx, at, c)
	received := time.Now()
	if err != nil {
		return nil, core.Batch{}, err
	}
	reply, err := c.Slice()
	switch {
	case err != nil:
		return nil, core.Batch{}, fault("take", err)
	case len(reply) == 1:
		return nil, core.Batch{}, core.ErrLeaseLost
	case len(reply) < 2 || len(reply)%4 != 2:
		return nil, core.Batch{}, fault("take", errReply)
	}
	now := time.UnixMicro(number(reply[0]))
	b.clock.observe(now, sent, received)
	batch := core.Batch{Now: now, Local: b.clock.here(now, sent, received)}
	if next := number(reply[1]); next != 0 {
		batch.Next = time.UnixMilli(next)
	}
	return reply, batch, nil
}

// sweptByTake is how many remembered ids a Take forgets that finds nothing, see take.lua.
const sweptByTake = 400

// swept counts such a Take, if what is remembered is old enough.
func (b *bucket) swept() {
	if time.Since(b.remembered).Milliseconds() > b.store.config.window(b.sink) {
		b.unswept = max(0, b.unswept-sweptByTake)
	}
}

// run runs a call when one of the slots is free, and reports when that was. It
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

// readTaken appends the messages of one priority, and notes them as in flight.
func (b *bucket) readTaken(messages []*core.Message, damaged []core.Outcome, part []any) ([]*core.Message, []core.Outcome, error) {
	priority := int(number(part[0]))
	members, _ := part[1].([]any)
	records, _ := part[2].([]any)
	failures, _ := part[3].([]any)
	if len(members) != 2*len(records) || len(failures) != 0 && len(failures) != len(records) {
		return nil, nil, fault("take", errReply)
	}
	messages = slices.Grow(messages, len(records))
	b.inFlight = slices.Grow(b.inFlight, len(records))
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
		err := decodeRecord(text(records[n]), b.store.config.newest, m)
		b.inFlight = append(b.inFlight, held{id: m.ID, member: member, priority: priority, generated: m.Generated, deliverAt: m.DeliverAt})
		if b.store.config.Final != nil {
			b.inFlight[len(b.inFlight)-1].message = m
		}
		if errors.Is(err, errNewer) {
			b.newer.met(text(records[n]), m.ID)
			continue
		}
		if err != nil {
			damaged = append(damaged, core.Outcome{ID: m.ID, State: core.Dead, Attempts: m.Attempt - 1, Reason: "damaged", Error: err.Error()})
		}
		messages = append(messages, m)
	}
	return messages, damaged, nil
}

// newerRecords is what the last take met of formats that this instance can't read.
// Such records are never settled: they stay until a newer version takes them.
type newerRecords struct {
	count  int
	format int // the newest of them
	id     string
	logged time.Time
}

const newerLogEvery = time.Minute

func (n *newerRecords) met(record, id string) {
	n.format = max(int(record[0]), n.format)
	n.count, n.id = n.count+1, id
}

// leaveNewer deals with a batch of which some can't be read here. If an instance that
// serves the sink reads them it gives up the bucket, by errNewer. Else it continues with
// up to limit of the others, and what can't be read waits.
func (b *bucket) leaveNewer(ctx context.Context, batch core.Batch, limit int) (core.Batch, error) {
	b.store.formats.met.Store(int64(b.newer.format))
	b.store.refreshFormats(ctx, b.store.serving)
	members, err := b.store.serving.ZRange(ctx, b.store.keys.live(b.sink), 0, -1).Result()
	seen := b.store.formats.seen.Load()
	if err == nil && slices.ContainsFunc(members, func(name string) bool {
		newest, _ := seen.reads(name)
		return newest >= b.newer.format
	}) {
		err = fmt.Errorf("take from %s: %d records such as %q: %w (%d)", b, b.newer.count, b.newer.id, errNewer, b.newer.format)
		return core.Batch{}, b.putBack(ctx, err)
	}
	if time.Since(b.newer.logged) >= newerLogEvery {
		b.newer.logged = time.Now()
		b.store.config.Log.Warn("records of a newer format are due and wait, because no instance reads them; run an instance of the newer version",
			"bucket", b.String(), "format", b.newer.format, "reads", b.store.config.newest, "records", b.newer.count, "message_id", b.newer.id)
	}
	if !batch.Next.After(batch.Now) {
		batch.Next = time.Time{} // there is more due behind them, but no sooner
	}
	if len(batch.Messages) == 0 {
		return batch, b.putBack(ctx, nil)
	}
	batch.Messages = batch.Messages[:min(limit, len(batch.Messages))]
	return batch, nil
}

// putBack puts back what is in flight, and returns err unless that fails.
func (b *bucket) putBack(ctx context.Context, err error) error {
	if failed := b.settle(ctx, nil); failed != nil {
		return failed
	}
	return err
}
