package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// candidates returns the buckets that may hold ref, those to look into first
// and those to look into if that finds nothing.
func (s *Store) candidates(ref core.Ref) (first, rest []int) {
	if ref.Key != nil {
		return []int{core.BucketOf(ref.Key, "", s.keys.buckets)}, nil
	}
	likely, ok := core.BucketOfID(ref.ID)
	ok = ok && likely < s.keys.buckets
	for n := range s.keys.buckets {
		if !ok || n != likely {
			rest = append(rest, n)
		}
	}
	if !ok {
		return rest, nil
	}
	return []int{likely}, rest
}

// found is a message that get.lua found.
type found struct {
	bucket int
	entry  core.Entry
	stored bool   // not just remembered
	seq    string // its sequence number, as it is stored
}

// locate finds the one message that ref names.
func (s *Store) locate(ctx context.Context, ref core.Ref) (found, error) {
	first, rest := s.candidates(ref)
	hits, err := s.lookInto(ctx, ref, first)
	if err == nil && len(hits) == 0 && len(rest) > 0 {
		hits, err = s.lookInto(ctx, ref, rest)
	}
	if err != nil {
		return found{}, err
	}
	return choose(hits)
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
		if hit.entry, err = readEntry(ref, reply); err != nil {
			return nil, err
		}
		if hit.stored && ref.Key != nil && (hit.entry.Message.Key == nil || string(hit.entry.Message.Key) != string(ref.Key)) {
			continue
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

func readEntry(ref core.Ref, reply []any) (core.Entry, error) {
	m := &core.Message{ID: ref.ID, Sink: ref.Sink}
	place, due := text(reply[0]), millis(reply[1])
	f := parseFailure(text(reply[2]), due)
	e := core.Entry{Message: m, State: f.state(place), Reason: f.reason, Error: f.text, Due: due}
	if record := text(reply[3]); record != "" {
		if err := decodeRecord(record, m); err != nil {
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
	return s.change(ctx, ref, s.scripts.discard, core.Dead)
}

// errMoved tells that a message is not as the caller has seen it any more.
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
		if r, err := s.changeOnce(ctx, ref, script, after, args...); err != errMoved {
			return r, err
		}
	}
	return core.Receipt{}, fmt.Errorf("change message: %w: it was changed by others %d times meanwhile", core.ErrUnavailable, moves)
}

// changeOnce returns errMoved, and has done nothing, if another call or a retry has
// moved the message since it was found: a call that is late must not undo that.
func (s *Store) changeOnce(ctx context.Context, ref core.Ref, script *script, after core.State, args ...any) (core.Receipt, error) {
	hit, err := s.locate(ctx, ref)
	if err != nil {
		return core.Receipt{}, err
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
	if settledPlace(place) {
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
