//go:build unix

package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

// republishRows have a consumer that publishes again what it got, to be given it once
// more later.
func republishRows() []*row {
	return []*row{{number: 56, name: "retry by publishing again", level: "fsync", bridges: 2, rate: 30, set: safeRedis, sink: rabbitWithRetries,
		shape: (*run).asPublishing, enter: (*run).publishDelayed, nemesis: (*run).killInRetries,
		fault:    "a consumer of RabbitMQ publishes again what it gets, with its headers and a new x-delay, three times, and at times twice with two delays, as it ends before it acknowledges; the bridges are killed with -9 anywhere, around a park, before a settle, in the order of the seed",
		expected: "each hop arrives; what arrives twice was published twice, or a fault is its reason", perFault: 200, drainIn: 30 * time.Second,
		needs: map[string]int{"last hop": 100, "published twice": 5, "failpoint": 3, "killed": 1}}}
}

const (
	delayedExchange = rabbitExchange + ".delayed"
	lastHop         = 3
	longestHopDelay = time.Second
)

// retries is a consumer that publishes again what it got. For the ledger each hop is a
// message of its own.
type retries struct {
	run *run

	mu         sync.Mutex
	connection *amqp.Connection
	channel    *amqp.Channel // nil: there is none
	returned   chan amqp.Return
	published  map[string]bool // hops that RabbitMQ has
	taken      int
}

// rabbitWithRetries has the bridges read from and deliver to a RabbitMQ. A record that
// can't be parked would stop the source.
func rabbitWithRetries(r *run) string {
	r.retries = &retries{run: r, published: map[string]bool{}}
	q := r.startRabbit()
	r.Cleanup(r.retries.close)
	r.more = fmt.Sprintf(`sources:
  in: {type: amqp, config: {urls: ["amqp://guest:guest@%s/"], sink: out, exchanges: [{name: %s, to: %s}], on_bad_record: stop}}
`, q.server.Addr(), delayedExchange, rabbitExchange)
	return q.sinks(q.server.Addr())
}

// asPublishing has a message go through RabbitMQ, which tells it by its message_id.
func (r *run) asPublishing(p *plan) {
	r.keyless(p)
	p.generated, p.again, p.other, p.steps = true, false, false, nil
	p.message.ID = ""
}

func (r *run) publishDelayed(p plan) entry {
	message := amqp.Publishing{MessageId: p.name, DeliveryMode: amqp.Persistent, Body: []byte(p.message.Body), Headers: amqp.Table{}}
	for _, h := range p.message.Headers {
		message.Headers[h.Name] = *h.Value
	}
	return r.retries.publish(entry{Name: p.name, Content: p.message.content()}, message, p.delay)
}

// hopName is that of a message in the ledger.
func hopName(name string, hop int) string {
	if hop == 0 {
		return name
	}
	return name + "~" + strconv.Itoa(hop)
}

// again publishes what a consumer got, unless that was the last hop. It tells whether
// the consumer is to be given it once more.
func (c *retries) again(d *amqp.Delivery, l landing) (twice bool, err error) {
	got := printed{Topic: l.topic, Headers: l.headers, Body: l.body}.entry("", time.Now())
	text, _ := d.Headers[core.HeaderHop].(string) // without one it was never published again
	hop, _ := strconv.Atoi(text)
	if hop == lastHop {
		c.run.reached("last hop")
		return false, nil
	}
	name := hopName(got.Name, hop+1)
	c.taken++
	sum := fnv.New64()
	fmt.Fprintln(sum, name, c.taken) // of two copies each has a delay of its own
	delay := time.Duration(sum.Sum64() % uint64(longestHopDelay)).Truncate(time.Millisecond)
	message := amqp.Publishing{MessageId: d.MessageId, DeliveryMode: d.DeliveryMode, Body: d.Body, Headers: maps.Clone(d.Headers)}
	e := c.publish(entry{Name: name, Content: got.Content}, message, delay)
	c.run.ledger.note(e)
	if e.Outcome != done && e.Outcome != again {
		return false, fmt.Errorf("publish %s again: %s", name, e.Code)
	}
	return c.taken%25 == 0 && !d.Redelivered, nil
}

// publish publishes to the exchange of the source, and returns what came of it.
func (c *retries) publish(e entry, message amqp.Publishing, delay time.Duration) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	message.Headers["x-delay"] = int32(delay.Milliseconds())
	e.Kind, e.Outcome, e.Call = accepting, done, time.Now()
	e.Least = e.Call.Add(delay)
	if err := c.send(message); errors.Is(err, errNoQueue) {
		e.Outcome, e.Code = refused, err.Error()
	} else if err != nil {
		e.Outcome, e.Code = unknown, err.Error()
		c.hangUp()
	} else if c.published[e.Name] {
		e.Outcome = again
		c.run.reached("published twice")
	} else {
		c.published[e.Name] = true
	}
	e.Return = time.Now()
	return e
}

var (
	errNoQueue = errors.New("no queue takes it")
	errNacked  = errors.New("it was not confirmed")
)

// send returns when RabbitMQ has confirmed that a queue has the message.
func (c *retries) send(message amqp.Publishing) error {
	if c.channel == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	confirmation, err := c.channel.PublishWithDeferredConfirm(delayedExchange, rabbitQueue, true, false, message)
	if err != nil {
		return err
	}
	select {
	case <-confirmation.Done():
	case <-time.After(callTimeout):
		return errNacked
	}
	select {
	case <-c.returned: // which comes before the confirmation
		return errNoQueue
	default:
	}
	if !confirmation.Acked() {
		return errNacked
	}
	return nil
}

func (c *retries) connect() (err error) {
	if c.connection, err = amqp.Dial(c.run.rabbit.server.URL()); err != nil {
		return err
	}
	channel, err := c.connection.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		c.hangUp()
		return err
	}
	c.channel, c.returned = channel, channel.NotifyReturn(make(chan amqp.Return, 1))
	return nil
}

func (c *retries) hangUp() {
	if c.connection != nil {
		c.connection.Close()
	}
	c.connection, c.channel = nil, nil
}

func (c *retries) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangUp()
}

// killInRetries kills the bridges. RabbitMQ does not tell which of them has sent
// something, so that each fault is one of both.
func (r *run) killInRetries() {
	time.Sleep(2 * time.Second) // until there are hops
	var troubles []func()
	for n, point := range []string{"park.before", "park.after", "deliver.after", "settle.before"} {
		troubles = append(troubles, func() {
			over := r.strike("kill at " + point)
			r.failAtWithin(r.bridges[n%len(r.bridges)], fmt.Sprintf("%s:%d:kill", point, 1+r.dice.IntN(10)), 10*time.Second)
			over()
		})
	}
	r.shuffled(append(troubles, func() {
		over := r.strike("kill")
		r.crash(r.bridges[0])
		r.bridges[0].start("")
		over()
		r.reached("killed")
	})...)
}
