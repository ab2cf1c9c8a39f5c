package redisstore

import (
	"cmp"
	"errors"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

var errReply = errors.New("unexpected reply of a script")

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

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

func millis(v any) time.Time { return time.UnixMilli(number(v)) }
