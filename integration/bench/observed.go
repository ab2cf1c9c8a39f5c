package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/internal/events"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/internal/otlp"
)

// observed is a bridge whose observers are on or off, and what was measured with it.
type observed struct {
	name            string
	metrics, traces bool
	*bridge
	scrape func() time.Duration
	end    func()

	park, burst, p99 []float64 // of each round: messages a second, and milliseconds
	idle             float64   // share of a core
}

const (
	observedRounds = 7
	observedPark   = 200_000
	observedBurst  = 200_000
	observedSpan   = 5 * time.Second // of lateness
	tracedShare    = 0.01
	scrapeEvery    = 15 * time.Second // as Prometheus does in most places
)

// measureObserved: what metrics, traces and events cost. All is measured with and without,
// in turns, and the shares are the medians of those of the rounds.
func measureObserved(ctx context.Context, b *bench) error {
	off := &observed{name: "nothing"}
	all := []*observed{off, {name: "metrics", metrics: true}, {name: "metrics, events, and traces of 1 %", metrics: true, traces: true}}
	for round := range observedRounds {
		for n := range all {
			o := all[(round+n)%len(all)]
			if err := o.measure(ctx, b, round == 0); err != nil {
				return fmt.Errorf("with %s: %w", o.name, err)
			}
		}
	}
	for _, o := range all[1:] {
		share := func(of func(*observed) []float64) string {
			return fmt.Sprintf("%.0f %%", 100*middle(ratios(of(o), of(off))))
		}
		rates := func(what string, of func(*observed) []float64) {
			b.table.row(what, perSecond(middle(of(o))), perSecond(middle(of(off))), share(of), "≥ 95 %")
		}
		rates("with "+o.name+": park, beside without", func(o *observed) []float64 { return o.park })
		rates("… burst", func(o *observed) []float64 { return o.burst })
		p99 := func(o *observed) []float64 { return o.p99 }
		b.table.row("… lateness p99 at 1,000/s", fmt.Sprintf("%.2f ms", middle(o.p99)), fmt.Sprintf("%.2f ms", middle(off.p99)), share(p99), "≤ 110 %")
		b.table.shares("… idle, bridge and Redis, with a scrape every 15 s", o.idle, off.idle, "≤ 0.1 % of a core more")
	}
	return measureScrape(ctx, b)
}

// middle returns the median.
func middle(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// ratios are those of each round.
func ratios(with, without []float64) (each []float64) {
	for n := range with {
		each = append(each, with[n]/without[n])
	}
	return each
}

// measure is one round, one of them also with nothing to do.
func (o *observed) measure(ctx context.Context, b *bench, idle bool) (err error) {
	if err := b.redis.flush(ctx); err != nil {
		return err
	}
	if err := o.open(ctx, b); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop()); o.end() }()
	park, err := o.parkSingles(ctx, observedPark, 1024)
	if err != nil {
		return err
	}
	burst, _, err := o.drain(ctx, observedBurst)
	if err != nil {
		return err
	}
	var seen arrivals
	if err := lateness(ctx, o.bridge, observedSpan, &seen); err != nil {
		return err
	}
	o.park, o.burst, o.p99 = append(o.park, park), append(o.burst, burst), append(o.p99, 1000*quantile(seen.late, 0.99).Seconds())
	if idle {
		o.idle, err = o.rest(ctx, b)
	}
	return err
}

// open opens the bridge, and whatever observes it. Spans go to a server that reads and
// forgets them.
func (o *observed) open(ctx context.Context, b *bench) error {
	config, observer := redisstore.Config{}, core.Observer{}
	o.scrape, o.end = func() time.Duration { return 0 }, func() {}
	var m *metrics.Metrics
	if o.metrics {
		m = metrics.New(metrics.Config{})
		config.Called, observer = m.OnRedisCall, m.Observer()
		o.scrape = func() time.Duration { return scrape(m.Handler()) }
	}
	if o.traces {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
		}))
		on, share := true, tracedShare
		t, err := otlp.StartTracing(ctx, otlp.TracingConfig{Target: otlp.Target{Enabled: &on, Endpoint: receiver.URL}, SampleRatio: &share,
			Types: func() otlp.Types { return otlp.Types{} }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			receiver.Close()
			return err
		}
		observer = observer.And(t.Observer()).And(events.New("bench").Observer())
		o.end = func() {
			_ = t.Close(ctx) // what is left has been measured
			receiver.Close()
		}
	}
	var err error
	if o.bridge, err = b.openObserved(ctx, config, observer); err != nil {
		o.end()
		return err
	}
	if m != nil {
		m.Watch(watched(o.in, o.store))
	}
	return nil
}

func watched(in *core.Interceptor, store *redisstore.Store) metrics.Watched {
	return metrics.Watched{Bridge: in, ClockOffset: store.ClockOffset, Memory: func(ctx context.Context) (metrics.Memory, error) {
		memory, err := store.Memory(ctx)
		return metrics.Memory(memory), err
	}}
}

// rest returns the share of a core that bridge and Redis take with nothing to do.
func (o *observed) rest(ctx context.Context, b *bench) (float64, error) {
	runtime.GC()
	time.Sleep(3 * time.Second) // let the append-only file settle
	used := func() (time.Duration, error) {
		own, err1 := cpuTime(os.Getpid())
		redis, err2 := cpuOf(ctx, b.redis.client)
		return own + redis, errors.Join(err1, err2)
	}
	before, err := used()
	if err != nil {
		return 0, err
	}
	const span = 2 * scrapeEvery
	for range span / scrapeEvery {
		o.scrape()
		time.Sleep(scrapeEvery)
	}
	after, err := used()
	return (after - before).Seconds() / span.Seconds(), err
}

func scrape(h http.Handler) time.Duration {
	began := time.Now()
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text")
	h.ServeHTTP(httptest.NewRecorder(), request)
	return time.Since(began)
}

const scrapedSinks = 50

// measureScrape: scrapes of a bridge with many sinks that ask the store, too.
func measureScrape(ctx context.Context, b *bench) (err error) {
	if err := b.redis.flush(ctx); err != nil {
		return err
	}
	m := metrics.New(metrics.Config{})
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{b.redis.addr}, Called: m.OnRedisCall})
	if err != nil {
		return err
	}
	sink := &nullSink{}
	whole := core.NewBridge(store, core.Options{Observer: m.Observer()}, nullSinks(sinkNames(scrapedSinks), sink)...)
	m.Watch(watched(whole.Interceptor, store))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- whole.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-ended) }()
	sink.expect(scrapedSinks)
	for _, name := range sinkNames(scrapedSinks) {
		if r := whole.Accept(ctx, &core.Message{Sink: name, Topic: "t", Delay: time.Millisecond})[0]; r.Err != nil {
			return r.Err
		}
	}
	<-sink.reached
	var took []time.Duration
	for range 20 {
		time.Sleep(1100 * time.Millisecond) // an answer of the store is used again for a second
		took = append(took, scrape(m.Handler()))
	}
	b.table.row(fmt.Sprintf("scrape of %d sinks with 16 buckets each, p50", scrapedSinks), millis(quantile(took, 0.5)), "", "", "≤ 20 ms")
	b.table.row("… max of 20", millis(quantile(took, 1)), "", "", "")
	return nil
}
