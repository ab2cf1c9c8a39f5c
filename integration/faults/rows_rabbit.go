//go:build unix

package main

import (
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// rabbitRows are troubles of RabbitMQ as the target.
func rabbitRows() []*row {
	return []*row{
		{number: 26, name: "RabbitMQ in trouble", level: "fsync", bridges: 2, set: safeRedis, sink: rabbitSinks, shape: (*run).keyless, nemesis: (*run).troubleRabbit,
			fault:    "queue deleted (returned), queue full (nack), memory or disk alarm (blocked), exchange deleted (channel closed), kill -9 and restart, in the order of the seed",
			expected: "nothing counts as delivered that is not in the queue; no dead letters; blocked is a pause", perFault: 400, drainIn: 20 * time.Second,
			needs: map[string]int{"queue deleted": 1, "returned": 20, "nacked": 20, "blocked": 1, "exchange missing": 20, "killed": 1}},
		{number: 46, name: "bad link to RabbitMQ", level: "fsync", bridges: 2, set: safeRedis, sink: rabbitBehindBadLink, shape: (*run).keyless, nemesis: (*run).endureLink,
			fault:    "answers of RabbitMQ come 200 ms ± 100 later, at 1 % of what passes the connection is reset, a quarter of it comes byte by byte",
			expected: "slower, and correct", perFault: 1000, drainIn: 25 * time.Second, needs: map[string]int{"reset": 3, "byte by byte": 50, "attempts over 1": 1}},
	}
}

// keyless is a message as a consumer of RabbitMQ sees it.
func (r *run) keyless(p *plan) {
	r.plain(p)
	p.message.keyless = true
}

func (r *run) troubleRabbit() {
	r.shuffled(r.deleteQueue, r.fillQueue, r.alarmRabbit, r.deleteExchange, r.killRabbit)
}

// queueEmptyIn is how long the harness may take to empty the queue.
const queueEmptyIn = 15 * time.Second

// deleteQueue unbinds the queue first, so that what it holds when it goes is
// nothing, and no loss of ours.
func (r *run) deleteQueue() {
	q, over := r.rabbit, r.strikeClean("queue deleted")
	q.do(func(c *amqp.Channel) error { return c.QueueUnbind(rabbitQueue, rabbitQueue, rabbitExchange, nil) })
	if poll.Holds(queueEmptyIn, func() bool { return q.with(deleteIfEmpty) == nil }) {
		r.reached("queue deleted")
	}
	r.watchHeld(r.between(3*time.Second, 5*time.Second), "returned", "NO_ROUTE")
	q.do(func(c *amqp.Channel) error { return errors.Join(q.declareQueue(c), q.bind(c)) })
	over()
}

func deleteIfEmpty(c *amqp.Channel) error {
	_, err := c.QueueDelete(rabbitQueue, false, true, false)
	return err
}

// fillQueue has the queue take five messages and no more.
func (r *run) fillQueue() {
	over := r.strikeClean("queue full")
	server := r.rabbit.server
	r.rabbit.holdBack(func() {
		server.Ctl("set_policy", "short", "^"+rabbitQueue+"$", `{"max-length":5}`, "--apply-to", "queues")
		r.watchHeld(r.between(3*time.Second, 5*time.Second), "nacked", "negative confirm")
		server.Ctl("clear_policy", "short")
	})
	over()
}

func (r *run) alarmRabbit() {
	server := r.rabbit.server
	what, alarm := "memory alarm", server.MemoryAlarm
	if r.dice.IntN(2) == 0 {
		what, alarm = "disk alarm", server.DiskAlarm
	}
	over := r.strike(what)
	alarm(true)
	for range 20 {
		if r.pausedFor(r.bridges[0], "out") != "" {
			r.reached("blocked")
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(r.between(time.Second, 3*time.Second))
	alarm(false)
	over()
}

// deleteExchange leaves unknown what was on a channel when RabbitMQ closed it.
func (r *run) deleteExchange() {
	q, over := r.rabbit, r.strike("exchange deleted")
	q.do(func(c *amqp.Channel) error { return c.ExchangeDelete(rabbitExchange, false, false) })
	r.watchHeld(r.between(3*time.Second, 5*time.Second), "exchange missing", "NOT_FOUND")
	q.do(func(c *amqp.Channel) error { return errors.Join(q.declareExchange(c), q.bind(c)) })
	over()
}

func (r *run) killRabbit() {
	server := r.rabbit.server
	r.outage("rabbitmq killed", server.Kill, server.Start, 100*time.Millisecond, 2*time.Second)
	r.reached("killed")
}

func rabbitBehindBadLink(r *run) string {
	q := r.startRabbit()
	r.proxy = r.startProxy(q.server.Addr())
	return q.sinks(r.proxy.addr())
}
