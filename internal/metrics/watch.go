package metrics

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delaybridge/delaybridge/core"
)

// Watched is what is asked at a scrape.
type Watched struct {
	Bridge *core.Interceptor
	// Memory asks the store about its memory; nil if that has no bound of its own.
	Memory func(ctx context.Context) (Memory, error)
	// ClockOffset asks the store by how much its clock is ahead of that of this machine;
	// nil if it is the same.
	ClockOffset func(ctx context.Context) (time.Duration, error)
	// Events are the counts of events; nil if there are none.
	Events func() Events
}

// Events are counts of events since the start, and those that wait: readers of the stream,
// and if Sends, what goes to a sink.
type Events struct {
	Readers                            int
	CutOff                             uint64
	Sends                              bool
	FinalSent, FinalFull, FinalRefused uint64
	OtherSent, OtherFull, OtherRefused uint64
	FinalWaiting, OtherWaiting         int64 // bytes
}

// Memory is what a store tells about its memory, in bytes.
type Memory struct {
	Used, Dataset int64
	Limit, Free   int64 // zero if there is no limit
}

// Watch has scrapes ask a bridge and its parts. Call it once.
func (m *Metrics) Watch(w Watched) { m.registry.MustRegister(&watch{Watched: w, read: newRead()}) }

const (
	// statsFor and serverFor are how long an answer of the store is used again.
	statsFor  = time.Second
	serverFor = 5 * time.Second
	// askTimeout bounds all questions of one scrape.
	askTimeout = 2 * time.Second
	// leastForMean is how many messages make a mean size: below, what else is in Redis
	// counts for more.
	leastForMean = 1000
)

// watch is a prometheus.Collector.
type watch struct {
	Watched
	read

	mu       sync.Mutex
	stats    []core.SinkStats
	statsErr error
	statsAt  time.Time
	memory   Memory
	memErr   error
	offset   time.Duration
	clockErr error
	serverAt time.Time
}

// Describe implements prometheus.Collector.
func (w *watch) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range w.all() {
		descs <- d
	}
}

// sample has the metrics of one scrape.
type sample chan<- prometheus.Metric

func (s sample) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sample) counter(d *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// Collect implements prometheus.Collector. What this process knows is there whether or
// not the store answers.
func (w *watch) Collect(metrics chan<- prometheus.Metric) {
	s := sample(metrics)
	me := w.Bridge.Local()
	for _, r := range me.Sinks {
		w.local(s, r)
	}
	for _, r := range me.Sources {
		w.source(s, r)
	}
	if w.Events != nil {
		w.events(s, w.Events())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask()
	s.gauge(w.storeUp, oneIf(w.statsErr == nil))
	if w.statsErr != nil {
		return
	}
	messages := 0
	for _, r := range w.stats {
		w.stored(s, r)
		messages += r.Scheduled + r.Dead
	}
	if w.Memory != nil && w.memErr == nil {
		w.capacity(s, messages)
	}
	if w.ClockOffset != nil && w.clockErr == nil {
		s.gauge(w.clock, w.offset.Seconds())
	}
}

// ask asks the store, unless the last answers are new enough.
func (w *watch) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if w.statsAt.IsZero() || time.Since(w.statsAt) >= statsFor {
		w.stats, w.statsErr = w.Bridge.Stored(ctx)
		w.statsAt = time.Now()
	}
	if w.statsErr != nil || !w.serverAt.IsZero() && time.Since(w.serverAt) < serverFor {
		return
	}
	w.serverAt = time.Now()
	if w.Memory != nil {
		w.memory, w.memErr = w.Memory(ctx)
	}
	if w.ClockOffset != nil {
		w.offset, w.clockErr = w.ClockOffset(ctx)
	}
}

func (w *watch) local(s sample, r core.Work) {
	s.gauge(w.inFlight, float64(r.InFlight), r.Sink)
	if r.Paused == "" {
		s.gauge(w.paused, 0, r.Sink, "")
	} else {
		s.gauge(w.paused, 1, r.Sink, oneOf(r.PausedClass.String(), reasons()))
	}
	if restarts, err := strconv.ParseUint(r.Details["restarts"], 10, 63); err == nil { // else it is no plugin
		s.counter(w.restarts, float64(restarts), r.Sink)
	}
}

func (w *watch) source(s sample, r core.SourceReport) {
	for _, count := range []struct {
		result string
		n      uint64
	}{{"parked", r.Parked}, {"duplicate", r.Duplicates}, {"rejected", r.Rejected}, {"skipped", r.Skipped}} {
		s.counter(w.records, float64(count.n), r.Source, count.result)
	}
	s.counter(w.retries, float64(r.Retried), r.Source)
	if r.Lag >= 0 {
		s.gauge(w.lag, float64(r.Lag), r.Source)
	}
	if r.LagTime >= 0 {
		s.gauge(w.lagSeconds, r.LagTime.Seconds(), r.Source)
	}
	for _, state := range []string{"running", "retrying", "stopped"} {
		s.gauge(w.state, oneIf(r.State() == state), r.Source, state)
	}
}

func (w *watch) events(s sample, e Events) {
	s.gauge(w.eventReaders, float64(e.Readers))
	s.counter(w.eventReadersCut, float64(e.CutOff))
	if !e.Sends {
		return
	}
	kind := func(kind string, sent, full, refused uint64, waiting int64) {
		s.counter(w.eventsSent, float64(sent), kind)
		s.counter(w.eventsDropped, float64(full), kind, "full")
		s.counter(w.eventsDropped, float64(refused), kind, "refused")
		s.gauge(w.eventsWaiting, float64(waiting), kind)
	}
	kind("final", e.FinalSent, e.FinalFull, e.FinalRefused, e.FinalWaiting)
	kind("other", e.OtherSent, e.OtherFull, e.OtherRefused, e.OtherWaiting)
}

func (w *watch) stored(s sample, r core.SinkStats) {
	s.gauge(w.parked, float64(r.Scheduled), r.Sink)
	s.gauge(w.due, float64(r.Due), r.Sink)
	s.gauge(w.retrying, float64(r.Retrying), r.Sink)
	s.gauge(w.dead, float64(r.Dead), r.Sink)
	s.gauge(w.overdue, r.Overdue.Seconds(), r.Sink)
	s.gauge(w.buckets, float64(r.Buckets), r.Sink)
	s.gauge(w.owned, float64(r.Owned), r.Sink)
}

// capacity tells how many messages still fit: those that are there show how much memory
// one needs, with its share of indexes and of remembered ids.
func (w *watch) capacity(s sample, messages int) {
	s.gauge(w.used, float64(w.memory.Used))
	if w.memory.Limit > 0 {
		s.gauge(w.limit, float64(w.memory.Limit))
	}
	if messages < leastForMean {
		return
	}
	mean := float64(w.memory.Dataset) / float64(messages)
	s.gauge(w.mean, mean)
	if w.memory.Limit > 0 && mean > 0 {
		s.gauge(w.fit, float64(int64(float64(w.memory.Free)/mean)))
	}
}
