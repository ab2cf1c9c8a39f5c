package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Every name, label and help text is in this file. docs/metrics.md has the same in a
// table, which a test compares.

// counted are the metrics that change when something happens.
type counted struct {
	accepted, duplicates, republished, refused, changed *prometheus.CounterVec
	delivered, retried, dead, expired, unsettled        *prometheus.CounterVec
	lateness, step, accept, redisCall                   *prometheus.HistogramVec
	redisFailures                                       *prometheus.CounterVec
}

func newCounted(r prometheus.Registerer) counted {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour}, labels)
	}
	return counted{
		accepted: counter("delaybridge_messages_accepted_total",
			"Messages that were parked and were new. The topic is empty unless the configuration lists it.", "input", "sink", "topic"),
		duplicates: counter("delaybridge_messages_duplicate_total",
			"Messages that were accepted and were stored or settled before.", "input", "sink"),
		republished: counter("delaybridge_messages_republished_total",
			"Messages among those accepted that had been delivered before and were published again.", "input", "sink"),
		refused: counter("delaybridge_refused_total",
			"Messages, requests and records that were not accepted, by error code. The sink is empty if it is not known.", "input", "sink", "reason"),
		changed: counter("delaybridge_changes_total",
			"Calls that cancel, reschedule, deliver now, redrive or discard. The result is done or an error code.", "input", "sink", "action", "result"),

		delivered: counter("delaybridge_messages_delivered_total",
			"Messages that the broker confirmed and that were settled. The topic is empty unless the configuration lists it.", "sink", "topic"),
		retried: counter("delaybridge_messages_retried_total",
			"Attempts that failed and are made again later. With the reason unknown or crashed the message may have been sent.", "sink", "reason"),
		dead: counter("delaybridge_messages_dead_total",
			"Messages that became dead letters because they could not be delivered.", "sink", "reason"),
		expired: counter("delaybridge_messages_expired_total",
			"Messages that became dead letters because they expired.", "sink"),
		unsettled: counter("delaybridge_messages_unsettled_total",
			"Messages whose outcome could not be stored. Those that were delivered may be delivered again.", "sink"),
		lateness: histogram("delaybridge_delivery_lateness_seconds",
			"Time from when a message was due until the broker had confirmed it.",
			[]float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}, "sink"),
		step: histogram("delaybridge_delivery_step_duration_seconds",
			"Parts of the lateness, of each batch: wake (due until asked for, of the first message if it is its first attempt), take, wait (for the sink), deliver, settle.",
			[]float64{.001, .01, .1, 1, 10}, "sink", "step"),

		accept: histogram("delaybridge_accept_duration_seconds",
			"Time that a call of accept took, which may have many messages. The durability is empty if nothing was stored.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}, "input", "durability"),
		redisCall: histogram("delaybridge_redis_call_duration_seconds",
			"Time that a call of a script took, with those before it in the pipeline and the wait for durability.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 3}, "script"),
		redisFailures: counter("delaybridge_redis_call_failures_total",
			"Calls of a script that failed: unavailable (nothing was changed), full (nothing was changed) or unknown.", "script", "reason"),
	}
}

// read are the metrics that are read at a scrape.
type read struct {
	storeUp, parked, due, retrying, dead, overdue, buckets, owned *prometheus.Desc
	inFlight, paused, restarts                                    *prometheus.Desc
	records, retries, lag, lagSeconds, state                      *prometheus.Desc
	used, limit, mean, fit, clock                                 *prometheus.Desc

	eventReaders, eventReadersCut, eventsSent, eventsDropped, eventsWaiting *prometheus.Desc
}

func newRead() read {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return read{
		storeUp:  desc("delaybridge_store_up", "1 if the store answered within the last second or at this scrape, else 0. Without an answer, metrics that need one are left out."),
		parked:   desc("delaybridge_parked_messages", "Messages that wait in the store, of all instances, with those that are due or are tried again.", "sink"),
		due:      desc("delaybridge_due_messages", "Parked messages that are due, with those in flight, of all instances.", "sink"),
		retrying: desc("delaybridge_retrying_messages", "Parked messages that have failed before, with those in flight, of all instances.", "sink"),
		dead:     desc("delaybridge_dead_letters", "Dead letters in the store, with those that expired.", "sink"),
		overdue:  desc("delaybridge_oldest_due_age_seconds", "Time for which the oldest due message has been due, on the store's clock; 0 if none is.", "sink"),
		buckets:  desc("delaybridge_buckets", "Buckets of the sink.", "sink"),
		owned:    desc("delaybridge_buckets_owned", "Buckets of the sink that some instance owns.", "sink"),

		inFlight: desc("delaybridge_in_flight_messages", "Messages that this instance has taken and not settled.", "sink"),
		paused:   desc("delaybridge_sink_paused", "1 if the circuit breaker of this instance is open, with the class of the error as reason, else 0.", "sink", "reason"),
		restarts: desc("delaybridge_plugin_restarts_total", "Restarts of the plugin.", "sink"),

		records:    desc("delaybridge_source_records_total", "Records that the source has read, by result: parked, duplicate, rejected or skipped.", "source", "result"),
		retries:    desc("delaybridge_source_retries_total", "Attempts to park or reject records that failed, because the store or the target was not available.", "source"),
		lag:        desc("delaybridge_source_lag_records", "Records not parked yet, of what this instance reads; absent if it is not known.", "source"),
		lagSeconds: desc("delaybridge_source_lag_seconds", "Age of the record that was parked last in the partition or queue furthest behind; 0 without lag, absent if it is not known.", "source"),
		state:      desc("delaybridge_source_state", "1 for the state of the source, else 0: running, retrying or stopped.", "source", "state"),

		eventReaders:    desc("delaybridge_event_readers", "Readers of the stream of events."),
		eventReadersCut: desc("delaybridge_event_readers_cut_off_total", "Readers of the stream of events that were too slow and were cut off."),
		eventsSent:      desc("delaybridge_events_sent_total", "Events that the sink of events has confirmed, by kind: final or other; absent without one.", "kind"),
		eventsDropped:   desc("delaybridge_events_dropped_total", "Events that did not reach the sink of events: full (no room to wait) or refused (by the sink).", "kind", "reason"),
		eventsWaiting:   desc("delaybridge_events_waiting_bytes", "Events that wait for the sink of events: final ones in the buckets that this instance owns, others in memory.", "kind"),

		used:  desc("delaybridge_redis_memory_used_bytes", "Memory that Redis uses, of all masters."),
		limit: desc("delaybridge_redis_memory_limit_bytes", "Sum of maxmemory of all masters; absent if a master has none."),
		mean:  desc("delaybridge_redis_message_mean_bytes", "Memory of the data in Redis divided by the messages of the sinks in it; absent below 1000 messages."),
		fit:   desc("delaybridge_redis_messages_fit", "Messages of the present mean size that can be parked until the fullest master is full; absent if size or limit is not known."),
		clock: desc("delaybridge_redis_clock_offset_seconds", "By how much Redis's clock is ahead of that of this machine; of several masters, the one furthest off."),
	}
}

func (d *read) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.storeUp, d.parked, d.due, d.retrying, d.dead, d.overdue, d.buckets, d.owned, d.inFlight, d.paused, d.restarts,
		d.records, d.retries, d.lag, d.lagSeconds, d.state, d.used, d.limit, d.mean, d.fit, d.clock,
		d.eventReaders, d.eventReadersCut, d.eventsSent, d.eventsDropped, d.eventsWaiting}
}

// addLoaded adds what is known of the configuration and of the program.
func addLoaded(r prometheus.Registerer, version string, loaded func() Loaded) {
	f := promauto.With(r)
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "delaybridge_build_info", Help: "1; the version of this instance is a label."}, []string{"version"}).
		WithLabelValues(version).Set(1)
	if loaded == nil {
		return
	}
	gauge := func(name, help string, value func(Loaded) float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(loaded()) })
	}
	gauge("delaybridge_config_generation", "How often a configuration was applied since the start.",
		func(l Loaded) float64 { return float64(l.Generation) })
	gauge("delaybridge_config_last_reload_success_timestamp_seconds", "When the present configuration was applied.",
		func(l Loaded) float64 { return float64(l.At.UnixMilli()) / 1000 })
	gauge("delaybridge_config_last_reload_successful", "1 if the last configuration that was read was applied, else 0.",
		func(l Loaded) float64 { return oneIf(!l.Failed) })
}

// addExported adds what became of exports by OTLP.
func addExported(r prometheus.Registerer, c Config) {
	counter := func(count func() uint64, name, help string, labels prometheus.Labels) {
		promauto.With(r).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(count()) })
	}
	if c.SpansDropped != nil {
		counter(c.SpansDropped, "delaybridge_spans_dropped_total",
			"Spans that were not exported, because too many waited or the receiver did not take them; absent without tracing.", nil)
	}
	for signal, failed := range c.ExportsFailed {
		counter(failed, "delaybridge_export_failures_total", "Exports by OTLP that failed, of spans or metrics.", prometheus.Labels{"signal": signal})
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
