package amqpsource

import (
	"errors"
	"maps"
	"regexp"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const limitArgument = "x-delivery-limit"

// limits reports whether the broker drops a message of a quorum queue that was delivered
// 20 times, unless the queue has another limit, or -1 for none. RabbitMQ does so from
// version 4 on; before, it takes -1 for 0.
func limits(c *amqp091.Connection) bool {
	version, _ := c.Properties["version"].(string)
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return c.Properties["product"] == "RabbitMQ" && err == nil && n >= 4
}

// declare makes what the source reads from, a quorum queue without a limit if nothing
// else is set. A queue that is there keeps the limit that it has.
func (s *session) declare() error {
	s.arguments = s.settings.queueArguments
	if _, set := s.arguments[limitArgument]; !set && s.arguments["x-queue-type"] == "quorum" && limits(s.connection.Connection) {
		s.arguments = maps.Clone(s.arguments)
		s.arguments[limitArgument] = int64(-1)
		err := s.declareWith(s.arguments)
		if refused, ok := errors.AsType[*amqp091.Error](err); !ok || refused.Code != amqp091.PreconditionFailed {
			return err
		}
		s.arguments = s.settings.queueArguments
	}
	return s.declareWith(s.arguments)
}

// declareWith has a channel of its own, as a refusal ends it.
func (s *session) declareWith(arguments map[string]any) error {
	channel, err := s.connection.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	_, err = s.exchange.declareOn(channel, arguments)
	return err
}

// limitQuestion are arguments with which no queue can be made, as the time to live is
// negative. For a queue that is there the broker names the first that differs: one that
// it has besides, or the limit, or the type, if that is not quorum. AMQP has no other
// question for that.
func limitQuestion() amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", limitArgument: "?", "x-message-ttl": int32(-1)}
}

// differs is what the broker says of an argument that differs, with its value and, if
// none was given, its type.
var differs = regexp.MustCompile(`inequivalent arg '([^']+)' for .*but current is (?:the value )?(none|'.*?')(?: of type '(\w+)')?$`)

// maxQuestions is more than a queue has arguments.
const maxQuestions = 16

// checkLimit warns once of a queue that drops messages that were delivered too often. A
// policy can't be seen.
func (s *session) checkLimit() {
	if s.limitChecked || !limits(s.connection.Connection) {
		return
	}
	log := s.log.With("source", s.name, "queue", s.queue)
	arguments := limitQuestion()
	for range maxQuestions {
		refused := s.ask(arguments)
		if refused == nil {
			return // and so does the consumer, or it was recreated
		}
		s.limitChecked = true
		said := differs.FindStringSubmatch(refused.Reason)
		switch {
		case refused.Code == amqp091.AccessRefused:
			log.Warn("not allowed to check whether the queue drops messages: a quorum queue of RabbitMQ 4 does so after 20 deliveries, "+
				"unless it was declared with x-delivery-limit -1", "err", refused.Reason)
			return
		case said == nil || said[1] == "x-queue-type":
			return
		case said[1] == limitArgument && said[2] == "'-1'":
			return
		case said[1] == limitArgument:
			log.Warn("the queue drops messages that were delivered too often: declare it again with x-delivery-limit -1, "+
				"or have a policy set a high delivery-limit and a dead letter exchange", "limit", strings.Replace(said[2], "none", "20, the default", 1))
			return
		case arguments[said[1]] != nil:
			return
		}
		arguments[said[1]] = argumentOf(strings.TrimSuffix(strings.TrimPrefix(said[2], "'"), "'"), said[3])
	}
}

func argumentOf(text, kind string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && kind != "longstr" {
		return n
	}
	if kind == "bool" || kind == "boolean" {
		return text == "true"
	}
	return text
}

// ask returns how the broker refuses to declare the queue with other arguments; nil if
// the connection ends.
func (s *session) ask(arguments amqp091.Table) *amqp091.Error {
	channel, err := s.connection.Channel()
	if err != nil {
		return nil
	}
	defer channel.Close()
	_, err = channel.QueueDeclare(s.queue, true, false, false, false, arguments)
	refused, _ := errors.AsType[*amqp091.Error](err)
	return refused
}
