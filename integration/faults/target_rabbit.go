//go:build unix

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const (
	rabbitExchange = "load"
	rabbitQueue    = "orders"
)

// rabbitTarget is a RabbitMQ with an exchange and a durable queue, which the
// harness empties: a message is there when it could be taken out of the queue.
type rabbitTarget struct {
	run    *run
	server *servers.RabbitMQServer

	mu     sync.Mutex // held while a message is taken, and to keep any from being taken
	seen   map[sending]bool
	failed bool // the harness did, so there is no end of the queue to wait for
}

// rabbitSinks delivers to a RabbitMQ.
func rabbitSinks(r *run) string {
	q := r.startRabbit()
	return q.sinks(q.server.Addr())
}

func (r *run) startRabbit() *rabbitTarget {
	q := &rabbitTarget{run: r, server: servers.RabbitMQ(r), seen: map[sending]bool{}}
	r.rabbit = q
	q.do(func(c *amqp.Channel) error {
		return errors.Join(q.declareExchange(c), q.declareQueue(c), q.bind(c))
	})
	r.Cleanup(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.failed = true
	})
	r.tails.Go(q.empty)
	return q
}

func (q *rabbitTarget) sinks(addr string) string {
	return fmt.Sprintf(`out: {type: amqp, timeout: 3s, config: {urls: ["amqp://guest:guest@%s/"], exchange: %q}}`, addr, rabbitExchange)
}

func (q *rabbitTarget) declareExchange(c *amqp.Channel) error {
	return c.ExchangeDeclare(rabbitExchange, "direct", true, false, false, false, nil)
}

// declareQueue says from the beginning what a full queue does: one that is told
// with its length at once first drops what is too many.
func (q *rabbitTarget) declareQueue(c *amqp.Channel) error {
	_, err := c.QueueDeclare(rabbitQueue, true, false, false, false, amqp.Table{"x-overflow": "reject-publish"})
	return err
}

func (q *rabbitTarget) bind(c *amqp.Channel) error {
	return c.QueueBind(rabbitQueue, rabbitQueue, rabbitExchange, false, nil)
}

// do does something on a channel of its own, and ends the run if it fails.
func (q *rabbitTarget) do(f func(*amqp.Channel) error) {
	if err := q.with(f); err != nil {
		q.run.Fatalf("set up rabbitmq: %v", err)
	}
}

func (q *rabbitTarget) with(f func(*amqp.Channel) error) error {
	connection, err := amqp.Dial(q.server.URL())
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	return f(channel)
}

const rabbitPoll = 5 * time.Millisecond

// empty takes messages out of the queue until the run is over and none is left.
// The broker, the queue, or both may be gone for a while.
func (q *rabbitTarget) empty() {
	for {
		err := q.with(q.takeAll)
		if err == nil {
			return
		}
		q.mu.Lock()
		failed := q.failed
		q.mu.Unlock()
		if failed {
			return
		}
		time.Sleep(20 * rabbitPoll)
	}
}

// takeAll returns nil at the end of the run.
func (q *rabbitTarget) takeAll(channel *amqp.Channel) error {
	for {
		over := false
		select {
		case <-q.run.over:
			over = true
		default:
		}
		took, err := q.take(channel)
		switch {
		case err != nil:
			return err
		case !took && over:
			return nil
		case !took:
			time.Sleep(rabbitPoll)
		}
	}
}

// take takes one message. One of which the broker had not noticed that it was
// taken comes again, and is not counted twice.
func (q *rabbitTarget) take(channel *amqp.Channel) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d, ok, err := channel.Get(rabbitQueue, false)
	if err != nil || !ok {
		return false, err
	}
	l := landing{topic: d.RoutingKey, body: string(d.Body)}
	for name, value := range d.Headers {
		if name == "x-delay" && q.run.retries != nil { // less than zero: it is over
			continue
		}
		text, ok := value.(string)
		if !ok {
			q.run.find("L3", "header %s is %T", name, value)
		}
		l.headers = append(l.headers, header{name, &text})
	}
	l.headers = sorted(l.headers)
	again := false
	if q.run.retries != nil {
		if again, err = q.run.retries.again(&d, l); err != nil {
			return false, err
		}
	}
	sent := sending{fmt.Sprint(d.Headers[core.HeaderID]), fmt.Sprint(d.Headers[core.HeaderAttempt])}
	if !d.Redelivered || !q.seen[sent] {
		q.run.land(l)
	}
	q.seen[sent] = true
	if again {
		return true, d.Nack(false, true)
	}
	return true, d.Ack(false)
}

// sending is one send of one message, as the broker knows it.
type sending struct{ id, attempt string }

// holdBack keeps the harness from taking messages while f runs.
func (q *rabbitTarget) holdBack(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}
