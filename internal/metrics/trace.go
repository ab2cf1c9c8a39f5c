package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/core"
)

// tracedMessage is a confirmed message that becomes an exemplar.
type tracedMessage struct {
	trace    string // empty: there is none
	lateness time.Duration
}

func (t *tracedMessage) observe(lateness prometheus.Observer) {
	if t.trace == "" {
		return
	}
	// Every histogram is an ExemplarObserver.
	lateness.(prometheus.ExemplarObserver).ObserveWithExemplar(t.lateness.Seconds(), prometheus.Labels{"trace_id": t.trace})
}

// sampledTrace returns the ID of the producer's trace if it was sampled, else nothing.
func sampledTrace(m *core.Message) string {
	if t, ok := m.Trace(); ok && t.Sampled {
		return string(t.ID)
	}
	return ""
}
