package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// route is from an input to a sink.
type route struct {
	sink                    string
	accepted                byTopic
	duplicates, republished prometheus.Counter
}

type routeKey struct{ input, sink string }

type acceptKey struct{ input, durability string }

// byTopic is a counter with the label topic.
type byTopic struct {
	other  prometheus.Counter
	listed map[string]prometheus.Counter
}

func (b *byTopic) of(topic string) prometheus.Counter {
	if c, ok := b.listed[topic]; ok {
		return c
	}
	return b.other
}

func (m *Metrics) byTopic(sink string, counter func(topic string) prometheus.Counter) byTopic {
	b := byTopic{other: counter(""), listed: make(map[string]prometheus.Counter)}
	for _, topic := range (*m.topics.Load())[sink] {
		b.listed[topic] = counter(topic)
	}
	return b
}

// newRoute is for a sink that has accepted a message, which is therefore known.
func (m *Metrics) newRoute(k routeKey) *route {
	m.sinks.get(k.sink)
	return &route{sink: k.sink,
		accepted:    m.byTopic(k.sink, func(topic string) prometheus.Counter { return m.accepted.WithLabelValues(k.input, k.sink, topic) }),
		duplicates:  m.duplicates.WithLabelValues(k.input, k.sink),
		republished: m.republished.WithLabelValues(k.input, k.sink)}
}

func (m *Metrics) onAccepted(_ context.Context, a core.Acceptance) {
	var to *route // of the message before, which is mostly the same
	durability := ""
	for n := range a.Receipts {
		r := &a.Receipts[n]
		if r.Err != nil {
			m.refused.WithLabelValues(a.Input, m.known(r.Sink), apierror.Of(r.Err).Code).Inc()
			continue
		}
		if to == nil || to.sink != r.Sink {
			to, durability = m.routes.get(routeKey{a.Input, r.Sink}), r.Durability
		}
		if r.Duplicate {
			to.duplicates.Inc()
			continue
		}
		to.accepted.of(a.Messages[n].Topic).Inc()
		if a.Messages[n].Hop > 0 {
			to.republished.Inc()
		}
	}
	m.accepts.get(acceptKey{a.Input, durability}).Observe(a.Ended.Sub(a.Began).Seconds())
}

// known returns the name of a sink, or nothing if a producer may have made it up.
func (m *Metrics) known(sink string) string {
	if _, ok := m.sinks.find(sink); !ok {
		return ""
	}
	return sink
}

func (m *Metrics) onRefused(_ context.Context, r core.Refusal) {
	m.refused.WithLabelValues(r.Input, "", oneOf(r.Reason, apierror.All())).Inc()
}

func (m *Metrics) onChanged(_ context.Context, c core.Change) {
	result := "done"
	if c.Err != nil {
		result = apierror.Of(c.Err).Code
	}
	m.changed.WithLabelValues(c.Input, m.known(c.Ref.Sink), string(c.Action), result).Inc()
}

// OnRedisCall is Config.Called of package redisstore.
func (m *Metrics) OnRedisCall(script string, took time.Duration, failure error) {
	m.calls.get(script).Observe(took.Seconds())
	if failure == nil {
		return
	}
	reason := "unknown"
	switch {
	case errors.Is(failure, core.ErrFull):
		reason = "full"
	case errors.Is(failure, core.ErrUnavailable):
		reason = "unavailable"
	}
	m.redisFailures.WithLabelValues(script, reason).Inc()
}
