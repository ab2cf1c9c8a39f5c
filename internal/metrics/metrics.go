// Package metrics counts what a bridge does, for Prometheus. A Metrics is told by a
// core.Observer, and asks the Bridge about the rest at each scrape. names.go has all
// metrics; a test compares them with docs/metrics.md.
package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delaybridge/delaybridge/core"
)

// Config configures Metrics.
type Config struct {
	Version string
	// Topics has the sinks of the configuration, which have metrics from the start, and
	// the topics of each that become labels. Each topic is a time series more in two
	// metrics, so they should be few.
	Topics map[string][]string
	// Loaded tells about the configuration; nil if there is none.
	Loaded func() Loaded
	// SpansDropped counts the spans that were not exported; nil without tracing.
	SpansDropped func() uint64
	// ExportsFailed counts the exports by OTLP that failed, by what they export.
	ExportsFailed map[string]func() uint64
}

// Loaded tells which configuration a bridge runs with.
type Loaded struct {
	Generation int       // 1 is that of the start
	At         time.Time // when it was applied
	Failed     bool      // a later one was read and refused
}

// Metrics has the metrics of one bridge. Create it with New.
type Metrics struct {
	counted
	topics   atomic.Pointer[map[string][]string]
	registry *prometheus.Registry
	sinks    cache[string, *sink]
	routes   cache[routeKey, *route]
	accepts  cache[acceptKey, prometheus.Observer]
	calls    cache[string, prometheus.Observer]
}

// New returns Metrics with a registry of their own. It starts nothing.
func New(c Config) *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	addLoaded(r, c.Version, c.Loaded)
	addExported(r, c)
	m := &Metrics{counted: newCounted(r), registry: r}
	m.sinks.make, m.routes.make = m.newSink, m.newRoute
	m.accepts.make = func(k acceptKey) prometheus.Observer { return m.accept.WithLabelValues(k.input, k.durability) }
	m.calls.make = func(script string) prometheus.Observer { return m.redisCall.WithLabelValues(script) }
	m.Adopt(c.Topics)
	return m
}

// Adopt replaces Config.Topics. Time series of sinks and topics that are not there any more stay.
func (m *Metrics) Adopt(topics map[string][]string) {
	m.topics.Store(&topics)
	m.sinks.clear()
	m.routes.clear()
	for name := range topics {
		m.sinks.get(name)
	}
}

// Observer returns what core.Options wants.
func (m *Metrics) Observer() core.Observer {
	return core.Observer{Accepted: m.onAccepted, Refused: m.onRefused, Changed: m.onChanged, Delivered: m.onDelivered}
}

// Gatherer returns the metrics in the form of the library, for other exporters.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// maxScrapes is how many scrapes are answered at the same time.
const maxScrapes = 4

// Handler answers scrapes. Exemplars are in the answer only if OpenMetrics or Protocol
// Buffers are asked for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes,
		ErrorHandling: promhttp.ContinueOnError})
}
