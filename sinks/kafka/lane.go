package kafka

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/delaybridge/delaybridge/core"
)

// lane sends records to one broker over one connection, a request at a time.
// What comes in meanwhile is gathered for the next request. A partition has one
// lane, so its records keep their order.
type lane struct {
	broker *broker

	mu      sync.Mutex
	queue   []*chunk
	running bool

	// Only for the goroutine that runs:
	conn  *conn
	pause time.Duration // that the broker asked for
}

const (
	maxPause = 30 * time.Second
	// ackShare is the part of the request timeout that the leader may wait for
	// its replicas, so that its answer still comes in time.
	ackShare = 0.8
)

// submit hands over chunks to be sent in this order.
func (l *lane) submit(chunks ...*chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, chunks...)
	if l.running {
		return
	}
	if l.running = l.broker.start(l.run); l.running {
		return
	}
	for _, c := range l.queue {
		c.settle(unsent(errClosed))
	}
	l.queue = nil
}

// drop forgets what is queued of a delivery that has been given up.
func (l *lane) drop(d *delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(c *chunk) bool { return c.delivery == d })
}

// run sends requests until nothing is queued.
func (l *lane) run() {
	for {
		l.rest()
		r := l.next()
		if r == nil {
			return
		}
		l.send(r)
	}
}

// rest waits as long as the broker asked for; it would not read on before.
func (l *lane) rest() {
	if l.pause == 0 {
		return
	}
	timer := time.NewTimer(min(l.pause, maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.broker.ctx.Done():
	}
	l.pause = 0
}

// next takes as much of the queue as fits into a request; nil if it is empty.
func (l *lane) next() *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := newRequest(l.broker.maxBatchBytes)
	l.queue = slices.DeleteFunc(l.queue, r.take)
	if len(r.sets) == 0 {
		l.running = false
		return nil
	}
	return r
}

// send sends r and tells its chunks what became of them.
func (l *lane) send(r *request) {
	answer, v := l.exchange(r)
	if v.err != nil {
		for _, s := range r.sets {
			s.settle(v)
		}
		return
	}
	l.pause = time.Duration(answer.ThrottleTimeMs) * time.Millisecond
	found := make(map[route]*produce.ResponsePartition, len(r.sets))
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			p := &answer.Topics[i].Partitions[j]
			found[route{answer.Topics[i].Topic, p.Partition}] = p
		}
	}
	for _, s := range r.sets {
		l.answered(s, found[s.route])
	}
}

// exchange sends r, on a new connection if the one at hand has ended before the
// request had left. The result has an error if there is no answer.
func (l *lane) exchange(r *request) (*produce.Response, answer) {
	for reused := l.conn.usable(); ; reused = false {
		if !l.conn.usable() {
			made, err := l.broker.connect(l.broker.ctx, l.broker.address)
			if err != nil {
				return nil, classifyDial(err)
			}
			l.conn = made
		}
		timeout := l.broker.RequestTimeout
		acks := time.Duration(ackShare * float64(timeout))
		answer, err := l.conn.roundTrip(l.broker.ctx, r.encode(l.broker.compression, acks), timeout)
		if err == nil {
			return answer.(*produce.Response), confirmed()
		}
		l.conn = nil
		if _, ok := errors.AsType[*unsentError](err); !ok {
			return nil, unclear(err)
		}
		if !reused {
			v := unsent(err)
			v.reroute = true
			return nil, v
		}
	}
}

// classifyDial is the result on messages for which there is no connection.
func classifyDial(err error) answer {
	v := unsent(err)
	if c, ok := errors.AsType[*connectError](err); ok {
		v.class = c.class
	}
	v.reroute = v.class == core.Retry
	return v
}

// answered deals with the broker's answer about one partition.
func (l *lane) answered(s *set, answer *produce.ResponsePartition) {
	if answer == nil {
		s.settle(unclear(errors.New("broker's answer leaves the partition out")))
		return
	}
	if len(answer.RecordErrors) == 1 && answer.RecordErrors[0].BatchIndexErrorMessage != "" {
		answer.ErrorMessage = answer.RecordErrors[0].BatchIndexErrorMessage
	}
	v := classifyAnswer(s.route, answer)
	if v.class == core.Permanent && s.messages() > 1 {
		l.isolate(s, v, answer)
		return
	}
	s.settle(v)
}

// isolate has a record batch, which was refused as a whole because of some of
// its records, sent again in parts: chunk by chunk, then without the records
// that the broker named, or else in halves until the culprit stands alone.
func (l *lane) isolate(s *set, v answer, answer *produce.ResponsePartition) {
	parts := s.chunks
	if len(parts) == 1 {
		parts = s.chunks[0].without(answer, v)
	}
	for _, c := range parts {
		c.alone = true
		c.back()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(slices.Clip(parts), l.queue...)
}

// without settles the records that the broker named as the culprits and returns
// the others as one chunk; if it named none, or all, two halves.
func (c *chunk) without(answer *produce.ResponsePartition, v answer) []*chunk {
	named := make(map[int]string, len(answer.RecordErrors))
	for _, e := range answer.RecordErrors {
		named[int(e.BatchIndex)] = e.BatchIndexErrorMessage
	}
	var rest []int
	for n, place := range c.places {
		if _, ok := named[n]; !ok {
			rest = append(rest, place)
		}
	}
	if len(rest) == 0 || len(rest) == len(c.places) {
		half := len(c.places) / 2
		return []*chunk{c.part(c.places[:half]), c.part(c.places[half:])}
	}
	for n, place := range c.places {
		if text, ok := named[n]; ok {
			c.delivery.settle(classify(int16(codeOf(v)), text, c.topic, c.partition), place)
		}
	}
	return []*chunk{c.part(rest)}
}

func codeOf(v answer) kafka.Error {
	code := kafka.Unknown
	errors.As(v.err, &code)
	return code
}

func (c *chunk) part(places []int) *chunk {
	p := &chunk{delivery: c.delivery, route: c.route, places: places}
	for _, place := range places {
		p.size += c.records[place].size
	}
	return p
}
