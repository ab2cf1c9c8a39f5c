package redisstore

import (
	"cmp"
	"slices"
	"sync"
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

// numbers guesses the next sequence number of each bucket, so that a
// message can be sent as it is to be stored. Only Redis gives the numbers out:
// a wrong guess is put right there and costs a little more work.
type numbers struct {
	mu   sync.Mutex
	next map[bucketAddress]int64
}

type bucketAddress struct {
	sink   string
	bucket int
}

// reserve returns the first of n numbers that are probably next.
func (g *numbers) reserve(sink string, bucket, n int) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = make(map[bucketAddress]int64)
	}
	at := bucketAddress{sink, bucket}
	first := max(1, g.next[at])
	g.next[at] = first + int64(n)
	return first
}

// learn takes the last number that Redis says it has given out.
func (g *numbers) learn(sink string, bucket int, last int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		g.next[bucketAddress{sink, bucket}] = last + 1
	}
}

// appendSeq appends a sequence number as it is stored.
func appendSeq(b []byte, seq int64) []byte {
	return append(b, byte(seq>>32), byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq))
}

// readParked turns the reply of one call of park.lua into receipts.
func (s *Store) readParked(g *parkGroup) {
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
	from, least := (number(reply[1])+999)/1000, number(reply[2])
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
			readTaken(reply[n+1], g.load[at], s.config.newest)
		}
	}
	if g.waited != nil {
		for _, p := range g.load {
			p.receipt.Err = cmp.Or(p.receipt.Err, g.waited)
		}
	}
}

// readTaken turns what park.lua says of a taken id into a receipt.
func readTaken(reply any, p *pending, newest int) {
	parts, _ := reply.([]any)
	r := p.receipt
	r.State, r.DeliverAt, r.Err = "", time.Time{}, core.ErrConflict
	if len(parts) == 4 {
		r.Err = sameContent(text(parts[3]), string(p.payload), newest)
	} else if len(parts) == 3 {
		r.Err = nil
	}
	if r.Err != nil {
		r.Durability = ""
		return
	}
	place, f := text(parts[0]), parseFailure(text(parts[2]), millis(parts[1]))
	r.State, r.Attempt = f.state(place), f.attempts
	if r.State == core.Cancelled {
		r.Durability, r.Err = "", core.ErrCancelled
		return
	}
	r.Duplicate = true
	if !r.State.Settled() {
		r.DeliverAt = f.deliverAt
	}
}
