package redisstore

import (
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// The flags of park.lua.
const (
	flagTouch = 1
	flagLarge = 2
)

// largeRecord is the size from which a take reads records one by one, as a
// hundred at once would make too large a reply.
const largeRecord = 64 << 10

// parkArgs writes a group as park.lua takes it.
func (s *Store) parkArgs(g *parkGroup) []any {
	flags := 0
	if s.durable.waits() {
		flags = flagTouch
	}
	if slices.ContainsFunc(g.load, func(p *pending) bool { return len(p.payload) > largeRecord }) {
		flags += flagLarge
	}
	args := make([]any, 0, 16+4*len(g.load))
	args = append(args, s.keys.wakeChannel(s.config.Instance, g.sink), g.bucket, s.config.window(g.sink), flags)
	for load := g.load; len(load) > 0; {
		kind, n := load[0].kind, 1
		for n < len(load) && load[n].kind == kind {
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
func (s *Store) readyRun(args []any, g *parkGroup, load []*pending) []any {
	seq := s.numbers.reserve(g.sink, g.bucket, len(load))
	args = append(args, seq)
	for n, p := range load {
		number := appendSeq(make([]byte, 0, seqLen+len(p.id)), seq+int64(n))
		p.payload = append(append(p.payload, number...), kindGenerated)
		p.member = string(append(number, p.id...))
		args = append(args, &p.id, p.payload)
	}
	for _, p := range load {
		args = append(args, &p.due, &p.member)
	}
	return args
}

func otherRun(args []any, load []*pending, kind parkKind) []any {
	for _, p := range load {
		args = append(args, &p.id, &p.due, p.payload)
		if kind.kind&kindExpires != 0 {
			args = append(args, &p.expires)
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
