package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/delaybridge/delaybridge/core"
)

// delivery is the state of one Deliver: its records and what became of them.
type delivery struct {
	records []record
	routes  []route  // of the last round
	leaders []string // of the routes, as far as known then

	mu      sync.Mutex
	results []result
	open    int           // messages handed to lanes and not settled yet
	done    chan struct{} // closed when open falls to 0
	over    bool          // given up: what lanes still say is not heard any more
}

// result is how far one message has come.
type result struct {
	answer
	settled bool
	sent    bool // a request with it is under way
}

// chunk is a run of one delivery's messages for one partition, in order. It is
// sent in one request, alone or together with others for that partition.
type chunk struct {
	*delivery
	route
	places []int // of its messages in the batch
	size   int   // bound on the bytes of its records
	// alone: it is not to share a record batch with other chunks, as one of its
	// records may be refused.
	alone bool
}

func newDelivery(batch []*core.Message) *delivery {
	return &delivery{
		records: newRecords(batch),
		routes:  make([]route, len(batch)),
		leaders: make([]string, len(batch)),
		results: make([]result, len(batch)),
	}
}

func (c *chunk) record(n int) *record { return &c.records[c.places[n]] }

// begin reports that the chunk is about to be sent; false means that it must not
// be any more.
func (c *chunk) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	for _, at := range c.places {
		c.results[at].sent = true
	}
	return true
}

// back reports that the chunk was sent but not stored, and waits once more.
func (c *chunk) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.places {
		c.results[at].sent = false
	}
}

// settle reports what became of all messages of the chunk.
func (c *chunk) settle(v answer) { c.delivery.settle(v, c.places...) }

func (d *delivery) settle(v answer, places ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	for _, at := range places {
		d.results[at] = result{answer: v, settled: true}
	}
	if d.open -= len(places); d.open == 0 {
		close(d.done)
	}
}

// expect begins a round in which the messages at places are handed to lanes.
func (d *delivery) expect(places []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range places {
		d.results[at] = result{}
	}
	d.open, d.done = len(places), make(chan struct{})
	if d.open == 0 {
		close(d.done)
	}
}

// decide settles messages that are not handed to a lane in this round.
func (d *delivery) decide(v answer, places ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range places {
		d.results[at] = result{answer: v, settled: true}
	}
}

// wait returns true when the round is over. If ctx ends first, it gives up what
// is open and returns false.
func (d *delivery) wait(ctx context.Context) bool {
	select {
	case <-d.done:
		return true
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	for n := range d.results {
		f := &d.results[n]
		switch {
		case f.settled:
		case f.sent:
			f.answer = unclear(fmt.Errorf("no answer yet: %w", context.Cause(ctx)))
		default:
			f.answer = unsent(fmt.Errorf("not sent yet: %w", context.Cause(ctx)))
		}
	}
	return false
}

// rerouted returns the places of the messages that may be worth another round.
func (d *delivery) rerouted() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var places []int
	for n := range d.results {
		if d.results[n].settled && d.results[n].reroute {
			places = append(places, n)
		}
	}
	return places
}

// blameRoute turns trouble with the broker of the messages at places into
// trouble with their partitions: the brokers as a whole are well.
func (d *delivery) blameRoute(places []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range places {
		if v := &d.results[at].answer; v.sinkWide && v.class == core.Retry {
			*v = topicTrouble(fmt.Errorf("leader of partition %d of %s: %w", d.routes[at].partition, d.routes[at].topic, v.err))
		}
	}
}

// confirmedAt reports whether the message there has been confirmed.
func (d *delivery) confirmedAt(place int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results[place].settled && d.results[place].err == nil
}

// result is what Deliver returns. It is called when no lane has anything left
// of the delivery, or after it was given up.
func (d *delivery) result() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	failed, worst := 0, answer{sinkWide: true}
	for n := range d.results {
		v := d.results[n].answer
		if v.err == nil {
			continue
		}
		failed++
		if severity(v) > severity(worst) {
			worst = v
		}
	}
	switch {
	case failed == 0:
		return nil
	case failed == len(d.results) && d.allSinkWide():
		return worst.classified()
	}
	return d.each()
}

func (d *delivery) allSinkWide() bool {
	for n := range d.results {
		if !d.results[n].sinkWide {
			return false
		}
	}
	return true
}

// severity orders the results that may stand for a whole batch: one message
// that may have been sent makes it unclear for all.
func severity(v answer) int {
	switch {
	case v.err == nil:
		return 0
	case v.class == core.Unknown:
		return 3
	case v.class == core.Blocked:
		return 2
	}
	return 1
}

// each is a result for each message.
func (d *delivery) each() core.BatchError {
	results := make(core.BatchError, len(d.results))
	for n := range d.results {
		results[n] = d.results[n].classified()
	}
	return results
}
