package amqp

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// LimitArgument is the argument of a quorum queue for its DeliveryLimit.
const LimitArgument = "x-delivery-limit"

// LimitsDeliveries reports whether the broker drops a message of a quorum queue that was
// delivered 20 times, unless the queue has another limit, or -1 for none. RabbitMQ does so
// from version 4 on; before, it takes -1 for 0.
func (c *Connection) LimitsDeliveries() bool {
	version, _ := c.Properties["version"].(string)
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return c.Properties["product"] == "RabbitMQ" && err == nil && n >= 4
}

// limitQuestion are arguments with which no queue can be made, as the time to live is
// negative. For a queue that is there the broker names the first that differs: one that
// it has besides, or the limit, or the type, if that is not quorum. AMQP has no other
// question for that.
func limitQuestion() amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", LimitArgument: "?", "x-message-ttl": int32(-1)}
}

// differs is what the broker says of an argument that differs, with its value and, if
// none was given, its type.
var differs = regexp.MustCompile(`inequivalent arg '([^']+)' for .*but current is (?:the value )?(none|'.*?')(?: of type '(\w+)')?$`)

// maxQuestions is more than a queue has arguments.
const maxQuestions = 16

// DeliveryLimit returns after how many deliveries a broker that LimitsDeliveries drops a
// message of this queue, in words; "" if it does not, or there is no such queue. A policy
// can't be seen. The error is the broker's, if it does not allow to ask or the connection
// has ended.
func (c *Connection) DeliveryLimit(queue string) (limit string, err error) {
	arguments := limitQuestion()
	for range maxQuestions {
		refused, ok := errors.AsType[*amqp091.Error](c.declare(queue, arguments))
		if !ok {
			return "", amqp091.ErrClosed
		}
		said := differs.FindStringSubmatch(refused.Reason)
		switch {
		case refused.Code == amqp091.AccessRefused || !refused.Server:
			return "", refused
		case said == nil || said[1] == "x-queue-type" || said[1] == LimitArgument && said[2] == "'-1'":
			return "", nil
		case said[1] == LimitArgument:
			return strings.Replace(said[2], "none", "20, the default", 1), nil
		case arguments[said[1]] != nil:
			return "", nil
		}
		arguments[said[1]] = argumentOf(strings.TrimSuffix(strings.TrimPrefix(said[2], "'"), "'"), said[3])
	}
	return "", nil
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

// declare has a channel of its own, as a refusal ends it.
func (c *Connection) declare(queue string, arguments amqp091.Table) error {
	channel, err := c.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	_, err = channel.QueueDeclare(queue, true, false, false, false, arguments)
	return err
}
