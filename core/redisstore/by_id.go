package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// found is a message that get.lua found.
type found struct {
	bucket int
	entry  core.Entry
	stored bool   // not just remembered
	seq    string // its sequence number, as it is stored
}

// locate finds the one message that ref names: mostly in the bucket where ref leads,
// else, if it has no key, in any.
func (s *Store) locate(ctx context.Context, ref core.Ref) (found, error) {
	home := core.BucketOf(ref.Key, ref.ID, s.keys.buckets)
	hits, err := s.lookInto(ctx, ref, []int{home})
	if err == nil && ref.Key == nil && !s.certain(ref, hits) {
		var others []int
		if others, err = s.holders(ctx, ref, home); err == nil {
			var more []found
			more, err = s.lookInto(ctx, ref, others)
			hits = append(hits, more...)
		}
	}
	if err != nil {
		return found{}, err
	}
	return choose(hits)
}

// certain reports whether what lies in the bucket of an id is what the id alone names:
// whatever is there if the id was made by us, else a message without a key.
func (s *Store) certain(ref core.Ref, hits []found) bool {
	if len(hits) == 0 {
		return false
	}
	carried, ok := core.BucketOfID(ref.ID)
	return ok && carried < s.keys.buckets || hits[0].stored && hits[0].entry.Message.Key == nil
}

// holders returns the buckets but home that have stored the id, or remember it. It asks
// with plain commands, as a script in each of many buckets takes several times as long.
func (s *Store) holders(ctx context.Context, ref core.Ref, home int) (buckets []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	var asked []redis.Cmder
	pipe := s.client.Pipeline()
	for n := range s.keys.buckets {
		tag := s.keys.tag(ref.Sink, n)
		asked = append(asked, pipe.HGet(ctx, tag+"msg", ref.ID), pipe.ZScore(ctx, tag+"done", ref.ID))
	}
	pipe.Exec(ctx) // each command has its own error
	for n, c := range asked {
		switch bucket := n / 2; {
		case c.Err() == nil && bucket != home && !slices.Contains(buckets, bucket):
			buckets = append(buckets, bucket)
		case c.Err() != nil && !errors.Is(c.Err(), redis.Nil):
			return nil, fault("look up message", c.Err())
		}
	}
	return buckets, nil
}

// choose takes what is stored before what is only remembered, and of that the
// latest.
func choose(hits []found) (found, error) {
	best, stored := -1, 0
	for n, hit := range hits {
		if hit.stored {
			stored++
		}
		if best < 0 || hit.stored && !hits[best].stored ||
			hit.stored == hits[best].stored && hit.entry.Due.After(hits[best].entry.Due) {
			best = n
		}
	}
	switch {
	case best < 0:
		return found{}, core.ErrNotFound
	case stored > 1:
		return found{}, core.ErrAmbiguous
	}
	return hits[best], nil
}

// lookInto asks several buckets in one round trip.
func (s *Store) lookInto(ctx context.Context, ref core.Ref, buckets []int) ([]found, error) {
	calls := make([]call, len(buckets))
	for n, bucket := range buckets {
		calls[n] = newCall(ctx, s.scripts.get, s.keys.bucket(ref.Sink, bucket), ref.ID, s.config.window(ref.Sink))
	}
	s.run(ctx, s.client, calls...)
	var hits []found
	for n, c := range calls {
		reply, err := c.Slice()
		if err != nil {
			return nil, fault("look up message", err)
		}
		if len(reply) != 4 {
			continue
		}
		record := text(reply[3])
		hit := found{bucket: buckets[n], stored: record != ""}
		if len(record) > seqLen {
			hit.seq = record[len(record)-1-seqLen : len(record)-1]
		}
		if hit.entry, err = readEntry(ref, reply, s.config.newest); err != nil {
			return nil, err
		}
		if err := newer(text(reply[3]), s.config.newest); err != nil && ref.Key != nil {
			return nil, fmt.Errorf("compare key: %w: %w", core.ErrUnavailable, err)
		}
		if hit.stored && ref.Key != nil && (hit.entry.Message.Key == nil || string(hit.entry.Message.Key) != string(ref.Key)) {
			continue
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

func readEntry(ref core.Ref, reply []any, newest int) (core.Entry, error) {
	m := &core.Message{ID: ref.ID, Sink: ref.Sink}
	place, due := text(reply[0]), millis(reply[1])
	f := parseFailure(text(reply[2]), due)
	e := core.Entry{Message: m, State: f.state(place), Reason: f.reason, Error: f.text, Due: due}
	if record := text(reply[3]); record != "" {
		if err := decodeRecord(record, newest, m); err != nil {
			e.Error = err.Error()
		}
		complete(&e, f)
		e.BodySize = len(m.Body)
	}
	return e, nil
}

// complete fills in what a stored entry owes to its failures.
func complete(e *core.Entry, f failure) {
	e.Message.DeliverAt = f.deliverAt
	e.Message.Attempt = f.attempts
	e.MayHaveBeenSent = f.attempts > 0 || e.State == core.Delivering
}

// Get implements core.Store.
func (s *Store) Get(ctx context.Context, ref core.Ref) (core.Entry, error) {
	hit, err := s.locate(ctx, ref)
	return hit.entry, err
}

// Cancel implements core.Store.
func (s *Store) Cancel(ctx context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ctx, ref, s.scripts.cancel, core.Cancelled)
}

// Reschedule implements core.Store. A time at or after the message's expiry is
// an *core.InvalidError.
func (s *Store) Reschedule(ctx context.Context, ref core.Ref, when core.When) (core.Receipt, error) {
	return s.change(ctx, ref, s.scripts.reschedule, "", whenMillis(when))
}

// Redrive implements core.Store.
func (s *Store) Redrive(ctx context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ctx, ref, s.scripts.redrive, core.Scheduled)
}

// Discard implements core.Store.
func (s *Store) Discard(ctx context.Context, ref core.Ref) (core.Receipt, error) {
	return s.change(ctx, ref, s.scripts.discard, core.Discarded)
}

// errMoved reports that a message is not as the caller has seen it any more.
var errMoved = errors.New("message was moved")

// moves is how often a change is tried that meets a message on the move.
const moves = 10

// change finds the message and runs a script on it, again if it was moved between the
// two. after is the state that success means; empty is that of a waiting message.
func (s *Store) change(ctx context.Context, ref core.Ref, script *script, after core.State, args ...any) (core.Receipt, error) {
	for range moves {
		if err := unlessDone(ctx, "change message"); err != nil {
			return core.Receipt{}, err
		}
		if r, err := s.changeOnce(ctx, ref, script, after, args...); !errors.Is(err, errMoved) {
			return r, err
		}
	}
	return core.Receipt{}, fmt.Errorf("change message: %w: it was changed concurrently %d times", core.ErrUnavailable, moves)
}

// changeOnce returns errMoved, and has done nothing, if another call or a retry has
// moved the message since it was found: a call that is late must not undo that.
func (s *Store) changeOnce(ctx context.Context, ref core.Ref, script *script, after core.State, args ...any) (core.Receipt, error) {
	hit, err := s.locate(ctx, ref)
	if err != nil {
		return core.Receipt{}, err
	}
	if after == core.Cancelled || after == core.Discarded {
		m := hit.entry.Message
		args = []any{s.line(hit.bucket, hit.seq, m, core.Outcome{ID: m.ID, State: after, Attempts: m.Attempt}), s.maxTold()}
	}
	all := append([]any{ref.ID, s.config.window(ref.Sink), hit.seq, s.keys.wakeChannel(s.config.Instance, ref.Sink), hit.bucket}, args...)
	keys := s.keys.bucket(ref.Sink, hit.bucket)
	c := newCall(ctx, script, keys, all...)
	waited := s.commit(ctx, c)
	receipt, err := s.readChange(c, ref, hit.bucket, after)
	if err == nil && waited != nil {
		err = waited
	}
	return receipt, err
}

func (s *Store) readChange(c call, ref core.Ref, bucket int, after core.State) (core.Receipt, error) {
	reply, err := c.Slice()
	switch {
	case err != nil:
		return core.Receipt{}, fault("change message", err)
	case len(reply) == 0:
		return core.Receipt{}, core.ErrNotFound
	case len(reply) == 1 && text(reply[0]) == "moved":
		return core.Receipt{}, errMoved
	case len(reply) == 1:
		return core.Receipt{}, core.Invalidf("deliver_at", "is not before the message expires")
	case len(reply) < 4:
		return core.Receipt{}, fault("change message", errReply)
	}
	if len(reply) == 5 && number(reply[4]) == 1 {
		s.owned.wake(ref.Sink, bucket)
	}
	place := text(reply[1])
	f := parseFailure(text(reply[3]), millis(reply[2]))
	r := core.Receipt{ID: ref.ID, Sink: ref.Sink, State: f.state(place), DeliverAt: f.deliverAt,
		Attempt: f.attempts, Durability: s.durable.level}
	if r.State.Settled() {
		r.DeliverAt = time.Time{}
	}
	if number(reply[0]) == 0 {
		return r, core.ErrTooLate
	}
	if after != "" {
		r.State = after
	}
	return r, nil
}
