package source

import (
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// Source is where a record comes from.
type Source struct {
	// Topic is what "{topic}" in the settings stands for.
	Topic string
	// ID is the message's if its headers have none, see PlaceID. Empty: Accept
	// makes one, and a record that is read again is then parked again.
	ID string
	// Sent is when the record was written, as the broker or the producer says;
	// zero is unknown.
	Sent time.Time
}

// Apply completes m, which has the record's key and body, by what the headers
// say and what the settings say of the rest. It returns the indices of the
// headers that are the message's own, for the caller to put into m.Headers.
//
// The error is a *core.InvalidError: the record is to be rejected. m is then as
// far as it came.
func (r *Rules) Apply(m *core.Message, from Source, headers []dialect.Header) (rest []int, err error) {
	found, err := r.dialects.Read(m, headers)
	if m.ID == "" {
		m.ID = from.ID
	}
	if err != nil {
		return nil, err
	}
	if err := r.setTarget(m, from.Topic); err != nil {
		return nil, err
	}
	return found.Rest, r.setTime(m, found, from.Sent)
}

// Knows reports whether a header of this name is about scheduling, see
// dialect.Set.Knows.
func (r *Rules) Knows(name string) bool { return r.dialects.Knows(name) }

func (r *Rules) setTarget(m *core.Message, source string) error {
	topic, err := r.target(source)
	if err != nil && m.Topic == "" {
		return err
	}
	sink, err := r.pick("sink", m.Sink, r.config.Sink)
	if err != nil {
		return err
	}
	if m.Topic, err = r.pick("topic", m.Topic, topic); err != nil {
		return err
	}
	m.Sink = sink
	if err := r.checkTopic(m.Topic); err != nil {
		return err
	}
	return nil
}

// pick chooses between what a header named and what is set.
func (r *Rules) pick(field, named, standard string) (string, *core.InvalidError) {
	switch {
	case named == "" && standard == "":
		return "", core.Invalidf(field, "is set neither by a header nor in the settings of the source")
	case named == "" || named == standard:
		return standard, nil
	case !r.config.AllowTargetHeaders:
		return "", core.Invalidf(field, "is set by a header, which needs allow_target_headers: true in the settings of the source")
	}
	return named, nil
}

// Denied are the topics, exchanges and queues that belong to brokers
// themselves. A record that names one is refused, whichever broker it goes to,
// unless Config.AllowTopics has it.
func Denied() []string { return slices.Clone(denied[:]) }

var denied = [...]string{
	"__*",   // Kafka: __consumer_offsets, __transaction_state
	"amq.*", // RabbitMQ: predeclared exchanges, replies
	"%*",    // RocketMQ: %RETRY% and %DLQ% of a consumer group, %SYS%
	"RMQ_SYS_*", "rmq_sys_*", "SCHEDULE_TOPIC_XXXX", "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
}

func (r *Rules) checkTopic(topic string) *core.InvalidError {
	if matches(topic, denied[:]) && !matches(topic, r.config.AllowTopics) {
		return core.Invalidf("topic", "%q is reserved for the broker; allow_topics of the source can allow it", core.Shorten(topic, 64))
	}
	if !r.config.AllowLoop && slices.Contains(r.sources, topic) {
		return core.Invalidf("topic", "%q is read by this source, which would be a loop; if the sink is another broker, set allow_loop: true", core.Shorten(topic, 64))
	}
	return nil
}

func matches(name string, patterns []string) bool {
	for _, p := range patterns {
		if start, ok := strings.CutSuffix(p, "*"); name == p || ok && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

func (r *Rules) setTime(m *core.Message, found dialect.Found, sent time.Time) error {
	switch {
	case found.Over:
	case found.Tagged:
		return r.checkPast(m, sent)
	case r.config.Untagged == UntaggedDelay:
		m.Delay = r.delay
	case r.config.Untagged == UntaggedReject:
		return core.Invalidf("deliver_at", "is missing, and so is a delay; to accept such messages, set untagged of the source")
	}
	return nil
}

// checkPast holds a time against max_past as it was when the record was written.
// What is long past by then is a mistake, as seconds where milliseconds belong.
func (r *Rules) checkPast(m *core.Message, sent time.Time) error {
	past := r.limits().MaxPast
	if past < 0 || m.DeliverAt.IsZero() {
		return nil
	}
	if now := time.Now(); sent.IsZero() || sent.After(now) {
		sent = now
	}
	if m.DeliverAt.Before(sent.Add(-past)) {
		return core.Invalidf("deliver_at", "is more than %s before the message was sent", past)
	}
	return nil
}

// CountFrom makes a time of a delay that is to count from when the record was
// written. Call it last, as who needs to know the delay finds none after it.
//
// If that time is not known, or still to come because the clock that told it is
// ahead, the delay counts from acceptance. One out of bounds is left for Accept to
// refuse: how long the record has waited does not make it good.
func (r *Rules) CountFrom(m *core.Message, sent time.Time) {
	if r.config.DelayFrom == DelayFromRecord && !sent.IsZero() && sent.Before(time.Now()) && m.Delay > 0 && m.Delay <= r.limits().MaxDelay {
		m.DeliverAt, m.Delay = sent.Add(m.Delay), 0
	}
}
