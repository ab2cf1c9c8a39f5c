package redisstore

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Each message that failed is several times the work of one that was delivered, and what
// other sinks want of Redis waits meanwhile. So settlePart is of how many one call tells at
// most, and failingTake how many are taken at once where many have failed.
const (
	settlePart  = 25
	failingTake = 100
)

// Settle implements core.Bucket.
func (b *bucket) Settle(ctx context.Context, outcomes ...core.Outcome) error {
	if len(outcomes) == 0 && len(b.inFlight) == 0 {
		return nil
	}
	return b.settle(ctx, outcomes)
}

// settle is Settle also when this process knows of nothing in flight.
func (b *bucket) settle(ctx context.Context, outcomes []core.Outcome) error {
	parts := b.settleParts(outcomes)
	for n, part := range parts {
		more, at := 0, &b.store.settles
		if n+1 < len(parts) {
			more = 1
		}
		if part.failed > 1 {
			at = &b.store.failing
		}
		args := append(make([]any, 0, 10+len(part.args)), b.token, b.store.config.window(b.sink), b.takes, more, part.groups)
		if part.told > 0 {
			args[4] = part.groups + 1
			args = append(args, "e", 0, part.told, part.lines, b.store.maxTold())
		}
		c := newCall(ctx, b.store.scripts.settle, b.keys, append(args, part.args...)...)
		if _, err := b.run(ctx, at, c); err != nil {
			return err
		}
		owned, err := c.Int()
		switch {
		case err != nil:
			return fault("settle", err)
		case owned == 0:
			return core.ErrLeaseLost
		}
		if part.told > 0 {
			b.store.owned.tell(b)
		}
	}
	b.failing = len(parts) > 1
	clear(b.inFlight) // of messages
	b.inFlight = b.inFlight[:0]
	return nil
}

// settleParts sorts outcomes into the groups that settle.lua takes, in one part or
// more. Of a batch that went well, all of a priority is one group.
func (b *bucket) settleParts(outcomes []core.Outcome) []settleArgs {
	var lots [core.MaxPriority + 1]settleLot
	for _, h := range b.inFlight {
		lots[h.priority].inFlight++
	}
	var remember []any
	find := b.finder()
	for n, o := range outcomes {
		h, ok := find(n, o.ID)
		if !ok {
			continue
		}
		var line []byte
		if h.message != nil && o.State != core.Retrying {
			line = b.store.line(b.number, h.member[:seqLen], h.message, o)
		}
		lots[h.priority].add(o, h, line)
		if o.State == core.Delivered && !h.generated {
			remember = append(remember, h.id)
		}
	}
	part := settleArgs{args: make([]any, 0, len(outcomes)+8)}
	part.add("m", 0, 1, remember)
	if len(remember) > 0 {
		b.unswept, b.remembered = b.unswept+len(remember), time.Now()
	}
	for p := range lots {
		part.addDelivered(p, &lots[p])
	}
	parts := []settleArgs{part}
	for p := range lots {
		parts = addFailed(parts, "b", p, 3, lots[p].back, nil)
		parts = addFailed(parts, "x", p, 2, lots[p].dead, lots[p].deadLines)
	}
	return parts
}

// settleLot is what became of the messages of one priority: what settle.lua is to
// be told, in the order of the outcomes.
type settleLot struct {
	inFlight       int
	ids, delivered []any // delivered: members
	back, dead     []any
	// lines to keep about the delivered, and about each of the dead; or none
	lines, deadLines [][]byte
}

func (l *settleLot) add(o core.Outcome, h held, line []byte) {
	if o.State == core.Delivered {
		if line != nil {
			l.lines = append(l.lines, line)
		}
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
	if line != nil {
		l.deadLines = append(l.deadLines, line)
	}
}

// settleArgs collects the groups of one call of settle.lua.
type settleArgs struct {
	args   []any
	groups int
	failed int // messages that failed
	lines  []byte
	told   int // messages that lines are about
}

func (g *settleArgs) tell(lines [][]byte) {
	for _, line := range lines {
		g.lines = append(g.lines, line...)
	}
	g.told += len(lines)
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
	g.tell(l.lines)
	if len(l.delivered) == l.inFlight {
		g.add("a", priority, 1, l.ids)
	} else {
		g.add("d", priority, 1, l.delivered)
	}
}

// addFailed appends messages that failed, in as many parts as it takes. lines are about
// each, or none.
func addFailed(parts []settleArgs, how string, priority, width int, items []any, lines [][]byte) []settleArgs {
	for len(items) > 0 {
		last := &parts[len(parts)-1]
		n := min(settlePart-last.failed, len(items)/width)
		if n == 0 {
			parts = append(parts, settleArgs{})
			continue
		}
		last.add(how, priority, width, items[:n*width])
		last.failed += n
		items = items[n*width:]
		if len(lines) > 0 {
			last.tell(lines[:n])
			lines = lines[n:]
		}
	}
	return parts
}

// finder finds each message in flight once. Outcomes mostly come in the order of
// the take, so a look in the same place mostly does.
func (b *bucket) finder() func(at int, id string) (held, bool) {
	used := make([]bool, len(b.inFlight))
	var byID map[string]int
	return func(at int, id string) (held, bool) {
		if at >= len(b.inFlight) || b.inFlight[at].id != id {
			if byID == nil {
				byID = make(map[string]int, len(b.inFlight))
				for n, h := range b.inFlight {
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
		return b.inFlight[at], true
	}
}
