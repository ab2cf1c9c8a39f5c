package metrics

import (
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
			return sampledTrace(string(h.Value))
		}
	}
	return ""
}

// sampledTrace reads a header of https://www.w3.org/TR/trace-context:
// version-trace-parent-flags, in hexadecimal digits.
func sampledTrace(header string) string {
	version, rest, _ := strings.Cut(header, "-")
	trace, rest, _ := strings.Cut(rest, "-")
	parent, rest, _ := strings.Cut(rest, "-")
	flags, _, _ := strings.Cut(rest, "-")
	switch {
	case !isHex(version, 2), !isHex(trace, 32), !isHex(parent, 16), !isHex(flags, 2):
	case version == "ff", strings.Trim(trace, "0") == "":
	case strings.IndexByte("13579bdf", flags[1]) < 0: // its last bit is not set
	default:
		return trace
	}
	return ""
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}
