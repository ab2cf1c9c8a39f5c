package metrics

import (
	"bytes"
	"strings"
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

const traceHeader = "traceparent"

// traceID returns the ID of the producer's trace if it was sampled, else nothing.
func traceID(m *core.Message) string {
	for n := range m.Headers {
		if h := &m.Headers[n]; len(h.Name) == len(traceHeader) && strings.EqualFold(h.Name, traceHeader) {
			return sampledTrace(h.Value)
		}
	}
	return ""
}

// sampledTrace reads a header of https://www.w3.org/TR/trace-context:
// version-trace-parent-flags, in hexadecimal digits; later versions may have more.
func sampledTrace(header []byte) string {
	const length = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(header) < length || len(header) > length && header[length] != '-' {
		return ""
	}
	version, trace, parent, flags := header[:2], header[3:35], header[36:52], header[53:55]
	switch {
	case header[2] != '-' || header[35] != '-' || header[52] != '-':
	case !isHex(version) || !isHex(trace) || !isHex(parent) || !isHex(flags):
	case string(version) == "ff" || len(bytes.Trim(trace, "0")) == 0:
	case strings.IndexByte("13579bdf", flags[1]) < 0: // its last bit is not set
	default:
		return string(trace)
	}
	return ""
}

func isHex(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
