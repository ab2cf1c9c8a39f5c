package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/core"
)

// sink has the metrics of deliveries of one sink.
type sink struct {
	delivered                         byTopic
	expired, unsettled                prometheus.Counter
	lateness                          prometheus.Observer
	wake, take, wait, deliver, settle prometheus.Observer
}

func (m *Metrics) newSink(name string) *sink {
	step := func(step string) prometheus.Observer { return m.step.WithLabelValues(name, step) }
	return &sink{
		delivered: m.byTopic(name, func(topic string) prometheus.Counter { return m.delivered.WithLabelValues(name, topic) }),
		expired:   m.expired.WithLabelValues(name), unsettled: m.unsettled.WithLabelValues(name),
		lateness: m.lateness.WithLabelValues(name),
		wake:     step("wake"), take: step("take"), wait: step("wait"), deliver: step("deliver"), settle: step("settle"),
	}
}

// reasons are the reasons of outcomes; see core.Outcome.
func reasons() []string {
	return []string{"retry", "unknown", "permanent", "blocked", "topic_blocked", "attempts", "crashed"}
}

// other is the label of what is not of a fixed set: nobody can make labels up.
const other = "other"

func oneOf(word string, words []string) string {
	if slices.Contains(words, word) {
		return word
	}
	return other
}

func (m *Metrics) onDelivered(d core.Delivery) {
	s := m.sinks.get(d.Sink)
	s.steps(&d)
	if d.Err != nil {
		s.unsettled.Add(float64(len(d.Outcomes)))
		return
	}
	find := d.Finder()
	var traced tracedMessage
	for n := range d.Outcomes {
		switch o := &d.Outcomes[n]; o.State {
		case core.Delivered:
			message := find(o.ID)
			s.delivered.of(message.Topic).Inc()
			s.late(d.Lateness(message), message, &traced)
		case core.Retrying:
			m.retried.WithLabelValues(d.Sink, oneOf(o.Reason, reasons())).Inc()
		case core.Dead:
			m.dead.WithLabelValues(d.Sink, oneOf(o.Reason, reasons())).Inc()
		case core.Expired:
			s.expired.Inc()
		}
	}
	traced.observe(s.lateness)
}

// steps observes the parts of the lateness.
func (s *sink) steps(d *core.Delivery) {
	if first := d.Messages[0]; first.Attempt == 1 {
		due := d.Local.Add(-d.Now.Sub(first.DeliverAt))
		s.wake.Observe(max(0, d.Asked.Sub(due)).Seconds())
	}
	s.take.Observe(d.Taken.Sub(d.Asked).Seconds())
	done := d.Taken
	if !d.Called.IsZero() {
		s.wait.Observe(d.Called.Sub(d.Taken).Seconds())
		s.deliver.Observe(d.Returned.Sub(d.Called).Seconds())
		done = d.Returned
	}
	s.settle.Observe(d.Settled.Sub(done).Seconds())
}

// late observes a lateness, or puts it into traced: of each batch, the latest message
// with a trace is an exemplar.
func (s *sink) late(lateness time.Duration, m *core.Message, traced *tracedMessage) {
	if traced.trace == "" || lateness > traced.lateness {
		if trace := sampledTrace(m); trace != "" {
			before := *traced
			if *traced = (tracedMessage{trace, lateness}); before.trace == "" {
				return
			}
			lateness = before.lateness
		}
	}
	s.lateness.Observe(lateness.Seconds())
}
