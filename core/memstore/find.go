package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// found is where a Ref leads: to a record, or to the memory of one.
type found struct {
	bucket *bucket
	record *record // nil: only remembered
	memory memory
}

// find looks into one bucket. An ID is not both stored and remembered there.
func (b *bucket) find(id string, now time.Time) (f found, ok bool) {
	b.forget(now)
	if r, ok := b.records[id]; ok {
		return found{bucket: b, record: r}, true
	}
	m, ok := b.memories[id]
	return found{bucket: b, memory: m}, ok
}

// find returns core.ErrNotFound or core.ErrAmbiguous if ref does not lead to
// one message; s.mu is held.
func (s *Store) find(ref core.Ref, now time.Time) (found, error) {
	buckets := s.sink(ref.Sink).buckets
	if ref.Key != nil {
		return findByKey(buckets[core.BucketOf(ref.Key, "", s.buckets)], ref, now)
	}
	carried, generated := core.BucketOfID(ref.ID)
	f, ok := buckets[core.BucketOf(nil, ref.ID, s.buckets)].find(ref.ID, now)
	if ok && (generated && carried < s.buckets || f.record != nil && f.record.message.Key == nil) {
		return f, nil
	}
	return findAnywhere(buckets, ref.ID, now)
}

// findByKey looks into the one bucket of the key. What is remembered has no key
// any more, so it is taken for the right one.
func findByKey(b *bucket, ref core.Ref, now time.Time) (found, error) {
	f, ok := b.find(ref.ID, now)
	if !ok || f.record != nil && (f.record.message.Key == nil || !bytes.Equal(f.record.message.Key, ref.Key)) {
		return found{}, core.ErrNotFound
	}
	return f, nil
}

// findAnywhere prefers what is stored to what is remembered, and of that the
// latest. Only two that are stored are ambiguous.
func findAnywhere(buckets []*bucket, id string, now time.Time) (found, error) {
	var stored, remembered []found
	for _, b := range buckets {
		switch f, ok := b.find(id, now); {
		case ok && f.record != nil:
			stored = append(stored, f)
		case ok:
			remembered = append(remembered, f)
		}
	}
	switch {
	case len(stored) == 1:
		return stored[0], nil
	case len(stored) > 1:
		return found{}, core.ErrAmbiguous
	case len(remembered) == 0:
		return found{}, core.ErrNotFound
	}
	return slices.MaxFunc(remembered, func(a, b found) int { return a.memory.at.Compare(b.memory.at) }), nil
}

// Get implements core.Store.
func (s *Store) Get(_ context.Context, ref core.Ref) (core.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.find(ref, time.Now())
	if err != nil {
		return core.Entry{}, err
	}
	if f.record != nil {
		return f.record.entry(), nil
	}
	return core.Entry{
		Message: &core.Message{ID: ref.ID, Sink: ref.Sink}, State: f.memory.state, Due: f.memory.at,
		MayHaveBeenSent: f.memory.state == core.Delivered,
	}, nil
}
