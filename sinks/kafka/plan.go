package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
)

// plan finds the ways for the messages of one delivery.
type plan struct {
	sink     *Sink
	batch    []*core.Message
	delivery *delivery
}

// assignment is what goes where in one round.
type assignment struct {
	places  []int // of all messages in the chunks
	chunks  map[*lane][]*chunk
	last    map[route]*chunk
	keyless map[string]int32 // the partition of this round's messages without a key, by topic
}

func (s *Sink) newPlan(batch []*core.Message, d *delivery) *plan {
	return &plan{sink: s, batch: batch, delivery: d}
}

// assign groups the messages at places by where they go, keeping their order,
// and settles those that can't go anywhere.
func (p *plan) assign(topics map[string]*topic, places []int) assignment {
	a := assignment{chunks: make(map[*lane][]*chunk), last: make(map[route]*chunk), keyless: make(map[string]int32)}
	for _, place := range places {
		m := p.batch[place]
		t := topics[m.Topic]
		r, v := p.routeOf(m, t, a.keyless)
		p.delivery.routes[place], p.delivery.leaders[place] = r, t.leader(r.partition)
		if v.err != nil {
			p.delivery.decide(v, place)
			continue
		}
		p.add(&a, r, place)
	}
	return a
}

// add puts a message into the last chunk for its partition, or a new one.
func (p *plan) add(a *assignment, r route, place int) {
	size := p.delivery.records[place].size
	c := a.last[r]
	if c == nil || batchHeadBytes+c.size+size > p.sink.client.maxBatchBytes {
		c = &chunk{delivery: p.delivery, route: r}
		a.last[r] = c
		lane := p.sink.cluster.laneTo(p.delivery.leaders[place], r)
		a.chunks[lane] = append(a.chunks[lane], c)
	}
	c.places = append(c.places, place)
	c.size += size
	a.places = append(a.places, place)
}

// routeOf finds the partition of a message. The result has an error if it can't
// be sent there.
func (p *plan) routeOf(m *core.Message, t *topic, keyless map[string]int32) (route, answer) {
	r := route{topic: m.Topic, partition: -1}
	if size := acceptedSize(m); size > p.sink.client.maxBatchBytes { // accepted under another limit
		return r, answer{err: fmt.Errorf("message of %d bytes is larger than max_message_bytes", size), class: core.Permanent}
	}
	if t.code != 0 {
		v := classify(t.code, "", m.Topic, -1)
		// It was asked for a moment ago; only a leader may still turn up.
		v.reroute = t.code == int16(kafka.LeaderNotAvailable)
		return r, v
	}
	if len(t.partitions) == 0 {
		return r, topicTrouble(fmt.Errorf("topic %s has no partitions", m.Topic))
	}
	number, err := p.choose(m, t, keyless)
	if err != nil {
		return r, answer{err: err, class: core.Permanent}
	}
	r.partition = number
	if chosen := t.partitions[number]; chosen.leader == "" {
		code := chosen.code
		if code == 0 {
			code = int16(kafka.LeaderNotAvailable)
		}
		v := classify(code, "", m.Topic, number)
		v.reroute = true
		return r, v
	}
	return r, confirmed()
}

var errNoPartition = errors.New("topic has no partition with this number")

// choose returns the number of the partition: the option's, the key's, or the
// one whose turn it is.
func (p *plan) choose(m *core.Message, t *topic, keyless map[string]int32) (int32, error) {
	if text, ok := m.Options[optionPartition]; ok {
		number, err := strconv.ParseUint(text, 10, 31)
		if err != nil || number >= uint64(len(t.partitions)) {
			return 0, fmt.Errorf("option partition: %w: %s of %d", errNoPartition, core.Shorten(text, 16), len(t.partitions))
		}
		return int32(number), nil
	}
	if m.Key != nil {
		return keyed(m.Key, t.numbers), nil
	}
	number, ok := keyless[m.Topic]
	if !ok {
		number = p.sink.partitioner.next(t.partitions)
		keyless[m.Topic] = number
	}
	return number, nil
}
