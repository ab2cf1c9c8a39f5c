//go:build unix

package amqpsource

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

// republished is what a consumer publishes again that has got attempt of hop-1.
func republished(id, body, hop, attempt string) amqp091.Publishing {
	p := delayed(id, body, "x-delay", int32(3_600_000), core.HeaderID, "i", core.HeaderAttempt, attempt)
	if hop != "1" {
		p.Headers[core.HeaderHop] = string(hop[0] - 1)
	}
	return p
}

// TestPublishedAgainIsParkedOnce: what is published again has an ID of its own for
// each hop, and the same each time that the broker gives it, with a message_id and
// without. Two consumers that publish the same again make one message while it is
// parked; without a message_id only if they have got the same attempt.
func TestPublishedAgainIsParkedOnce(t *testing.T) {
	r := newRig(t)
	in := r.queue(".delayed", nil)
	wire := sinktest.NewWire(t)
	cut := false
	r.store.After = func() {
		if !cut {
			cut = true
			wire.Faults().Cut(t) // parked, but not acknowledged
		}
	}
	later := republished("m", "second", "1", "1") // by who was given it twice, and counts again how long to wait
	later.Headers["x-delay"], later.Timestamp = int32(3_500_000), time.Unix(1700000000, 0)
	r.publish(in, delayed("m", "first", "x-delay", int32(3_600_000)), republished("m", "second", "1", "1"), republished("m", "second", "2", "1"),
		republished("", "second", "1", "1"), republished("", "third", "1", "1"), republished("", "third", "1", "2"),
		republished("m", "second", "1", "2"), republished("", "second", "1", "1"), later)
	config := map[string]any{"urls": []string{r.through(wire.Addr(t, r.Addr()))}, "queues": []string{in}}
	r.empty(in, config, func(duplicates uint64) bool { return duplicates > 3 })
	ids, hops := map[string]bool{}, 0
	for _, m := range r.store.Parked {
		ids[m.ID] = true
		hops += m.Hop
	}
	if len(ids) != 6 || len(r.store.Parked) != 6 || hops != 6 || !ids["r:src:"+in+":m"] || !ids["r:src:"+in+":m~1"] || !ids["r:src:"+in+":m~2"] {
		t.Errorf("parked %v, %d hops", ids, hops)
	}
}
