package amqpsource

import (
	"errors"
	"maps"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// declare makes what the source reads from, a quorum queue without a limit if nothing
// else is set. A queue that is there keeps the limit that it has.
func (s *session) declare() error {
	s.arguments = s.settings.queueArguments
	if _, set := s.arguments[amqp.LimitArgument]; !set && s.arguments["x-queue-type"] == "quorum" && s.connection.LimitsDeliveries() {
		s.arguments = maps.Clone(s.arguments)
		s.arguments[amqp.LimitArgument] = int64(-1)
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

// checkLimit warns once of a queue that drops messages that were delivered too often. A
// policy can't be seen.
func (s *session) checkLimit() {
	if s.limitChecked || !s.connection.LimitsDeliveries() {
		return
	}
	limit, err := s.connection.DeliveryLimit(s.queue)
	refused, _ := errors.AsType[*amqp091.Error](err)
	log := s.log.With("source", s.name, "queue", s.queue)
	switch {
	case refused != nil && refused.Code == amqp091.AccessRefused:
		log.Warn("not allowed to check whether the queue drops messages: a quorum queue of RabbitMQ 4 does so after 20 deliveries, "+
			"unless it was declared with x-delivery-limit -1", "err", refused.Reason)
	case err != nil:
		return // and so does the consumer
	case limit != "":
		log.Warn("the queue drops messages that were delivered too often: declare it again with x-delivery-limit -1, "+
			"or have a policy set a high delivery-limit and a dead letter exchange", "limit", limit)
	}
	s.limitChecked = true
}
