package amqpsource

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// exchangeConfig is an exchange that stands for one of the type
// x-delayed-message.
type exchangeConfig struct {
	Name    string `json:"name"`
	To      string `json:"to"`
	Type    string `json:"type"`
	Queue   string `json:"queue"`
	Declare *bool  `json:"declare"`
}

// exchange is an exchangeConfig as used.
type exchange struct {
	name    string // programs publish to it
	to      string // and messages that are due go to this one
	kind    string
	queue   string // gets all that is published to it
	declare bool
}

func (c *config) checkSources(s *settings) error {
	if len(c.Queues) == 0 && len(c.Exchanges) == 0 {
		return core.Invalidf("queues", "is missing; set it or exchanges")
	}
	for n, name := range c.Queues {
		if err := c.checkQueue(fmt.Sprintf("queues[%d]", n), name, slices.Contains(c.Queues[:n], name)); err != nil {
			return err
		}
	}
	for n := range c.Exchanges {
		if err := c.addExchange(s, fmt.Sprintf("exchanges[%d]", n), &c.Exchanges[n]); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) checkQueue(field, name string, twice bool) error {
	if name == "" {
		return core.Invalidf(field, "is not the name of a queue")
	}
	if twice {
		return core.Invalidf(field, "appears twice")
	}
	return amqp.CheckShort(field, name)
}

func (c *config) addExchange(s *settings, field string, e *exchangeConfig) error {
	made := exchange{name: e.Name, to: e.To, kind: cmp.Or(e.Type, amqp091.ExchangeFanout),
		queue: cmp.Or(e.Queue, "delaybridge."+e.Name), declare: e.Declare == nil || *e.Declare}
	switch {
	case e.Name == "":
		return core.Invalidf(field+".name", "is missing: name the exchange that programs publish to")
	case e.To == "":
		return core.Invalidf(field+".to", "is missing: name the exchange that messages go to when they are due")
	case made.kind == amqp091.ExchangeDirect:
		return core.Invalidf(field+".type", "can't be direct, because a queue can't receive all messages of such an exchange")
	case made.kind != amqp091.ExchangeFanout && made.kind != amqp091.ExchangeTopic && made.kind != amqp091.ExchangeHeaders:
		return core.Invalidf(field+".type", "must be fanout, topic or headers")
	case slices.ContainsFunc(s.exchanges, func(other exchange) bool { return other.name == e.Name }):
		return core.Invalidf(field+".name", "appears twice")
	case s.reads(made.queue):
		return core.Invalidf(field+".queue", "appears twice")
	}
	if err := c.checkTarget(field+".to", e.To); err != nil {
		return err
	}
	s.exchanges = append(s.exchanges, made)
	return errors.Join(amqp.CheckShort(field+".name", e.Name), amqp.CheckShort(field+".to", e.To), amqp.CheckShort(field+".queue", made.queue))
}

// checkTarget keeps messages from going in a circle, and from exchanges that
// are the broker's own.
func (c *config) checkTarget(field, name string) error {
	if isOneOf(name, source.Denied()) && !isOneOf(name, c.AllowTopics) {
		return core.Invalidf(field, "is reserved for the broker; allow_topics can allow it")
	}
	for _, e := range c.Exchanges {
		if e.Name == name && !c.AllowLoop {
			return core.Invalidf(field, "is read by this source, which would be a loop; if the sink is another broker or virtual host, set allow_loop: true")
		}
	}
	return nil
}

func isOneOf(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, any := strings.CutSuffix(p, "*")
		return name == p || any && strings.HasPrefix(name, start)
	})
}

// reads reports whether the source reads from a queue.
func (s *settings) reads(queue string) bool {
	return slices.Contains(s.queues, queue) || slices.ContainsFunc(s.exchanges, func(e exchange) bool { return e.queue == queue })
}

// setArguments makes of numbers what brokers expect: JSON knows floats only.
func (c *config) setArguments(s *settings) error {
	s.queueArguments = make(map[string]any, len(c.QueueArguments))
	for name, value := range c.QueueArguments {
		switch v := value.(type) {
		case string, bool:
			s.queueArguments[name] = v
		case float64:
			s.queueArguments[name] = v
			if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
				s.queueArguments[name] = int64(v)
			}
		default:
			return core.Invalidf("queue_arguments."+core.Shorten(name, 64), "must be a string, a number or a boolean")
		}
	}
	return nil
}

// declares reports whether the source makes what it reads from.
func (s *queueReader) declares() bool { return s.exchange != nil && s.exchange.declare }

// declareOn makes what the source reads from, if need be: the exchange, and a
// queue that gets everything from it. With the types topic and headers that is
// what these keys and no arguments mean. It returns how many messages wait there.
func (e *exchange) declareOn(channel *amqp091.Channel, arguments map[string]any) (messages int, err error) {
	if err := channel.ExchangeDeclare(e.name, e.kind, true, false, false, false, nil); err != nil {
		return 0, fmt.Errorf("declare exchange %s: %w", e.name, err)
	}
	q, err := channel.QueueDeclare(e.queue, true, false, false, false, arguments)
	if err != nil {
		return 0, fmt.Errorf("declare queue %s: %w", e.queue, err)
	}
	if err := channel.QueueBind(e.queue, "#", e.name, false, nil); err != nil {
		return 0, fmt.Errorf("bind queue %s: %w", e.queue, err)
	}
	return q.Messages, e.mark(channel)
}

// mark makes an exchange that vanishes with e, also if e is then declared by somebody
// else: it is deleted with its last binding, which leads to e. It has the name of the
// queue, so that a user who may declare that may declare it, too. Nothing is published
// to it.
func (e *exchange) mark(channel *amqp091.Channel) error {
	if err := channel.ExchangeDeclare(e.queue, amqp091.ExchangeFanout, true, true, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", e.queue, err)
	}
	if err := channel.ExchangeBind(e.name, "", e.queue, false, nil); err != nil {
		return fmt.Errorf("bind exchange %s: %w", e.name, err)
	}
	return nil
}

// lookUpMark fails if e was deleted since it was marked.
func (e *exchange) lookUpMark(channel *amqp091.Channel) error {
	return channel.ExchangeDeclarePassive(e.queue, amqp091.ExchangeFanout, true, true, false, false, nil)
}
