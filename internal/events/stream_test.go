package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// faulty is a sink that fails by topic.
type faulty struct{}

func (faulty) Deliver(_ context.Context, batch []*core.Message) error {
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		switch {
		case m.Topic == "never":
			results[n] = core.Classify(core.Permanent, errors.New("no such topic"))
		case m.Topic == "twice" && m.Attempt == 1:
			results[n] = core.Classify(core.Retry, errors.New("try again"))
		}
	}
	return results
}

func (faulty) Close() error { return nil }

// run gives f a bridge with a stream in a bubble of virtual time, which is empty again
// afterwards.
func run(t *testing.T, f func(b *core.Bridge, s *Stream)) {
	synctest.Test(t, func(t *testing.T) {
		s := New("here")
		b := core.NewBridge(memstore.New(memstore.Config{}), core.Options{Observer: s.Observer()}, &core.Dispatcher{Name: "orders", Sink: faulty{}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		<-b.Started()
		f(b, s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func subscribe(t *testing.T, s *Stream, f Filter, bodies bool) *Reader {
	t.Helper()
	r, err := s.Subscribe(f, bodies)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns what waits for r, without times.
func read(t *testing.T, r *Reader) (got []string) {
	t.Helper()
	r.Close()
	lines, _ := r.take()
	for _, line := range lines {
		var e map[string]any
		if err := json.Unmarshal(line.Data, &e); err != nil || e["event"] != line.Event || e["instance"] != "here" || e["time"] == "" {
			t.Errorf("%s: %s: %v", line.Event, line.Data, err)
		}
		for _, name := range []string{"event", "instance", "time", "deliver_at", "due"} {
			delete(e, name)
		}
		text, _ := json.Marshal(e)
		got = append(got, line.Event+" "+string(text))
	}
	return got
}

func accept(t *testing.T, in *core.Interceptor, messages ...*core.Message) {
	t.Helper()
	for _, r := range in.Accept(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// TestEvents: everything that can happen to messages is told, once and in order.
func TestEvents(t *testing.T) {
	run(t, func(b *core.Bridge, s *Stream) {
		all := subscribe(t, s, Filter{}, false)
		in, ctx := b.For("http"), t.Context()
		traced := []core.Header{{Name: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")}}
		one := func(id, topic string, delay time.Duration) *core.Message {
			return &core.Message{ID: id, Topic: topic, Delay: delay, Body: []byte("b")}
		}
		const hour = time.Hour
		accept(t, in, one("a", "t", hour), &core.Message{ID: "k", Topic: "t", Key: []byte("é"), Headers: traced, Delay: 1e6}, &core.Message{ID: "x", Topic: "t", Key: []byte{0xff}, Delay: 2e6})
		in.Accept(ctx, one("a", "t", hour), one("a", "other", hour), one("", "", 0)) // a duplicate, a conflict, an error
		time.Sleep(time.Second)
		for _, change := range []func(context.Context, core.Ref) (core.Receipt, error){in.DeliverNow, in.Redrive, in.Discard} {
			accept(t, in, one("c", "never", hour))
			change(ctx, core.Ref{ID: "c"})
			time.Sleep(time.Second)
		}
		in.Cancel(ctx, core.Ref{ID: "c"}) // too late
		in.Reschedule(ctx, core.Ref{ID: "a"}, core.When{After: time.Second})
		time.Sleep(2 * time.Second)
		accept(t, in, one("b", "t", hour))
		in.Cancel(ctx, core.Ref{ID: "b"})
		accept(t, in, one("r", "twice", 0), &core.Message{ID: "e", Topic: "twice", Delay: time.Minute, TTL: hour, Options: map[string]string{"retry.initial": "2h", "retry.max": "2h"}})
		time.Sleep(3 * hour)
		s.Reloaded([]string{"log.level"}, nil)
		s.Reloaded(nil, errors.New("no"))
		want := []string{
			`accepted {"id":"a","input":"http","sink":"orders","topic":"t"}`,
			`accepted {"id":"k","input":"http","key":"é","sink":"orders","topic":"t","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}`,
			`accepted {"id":"x","input":"http","key_base64":"/w==","sink":"orders","topic":"t"}`,
			`delivered {"attempt":1,"id":"k","key":"é","sink":"orders","topic":"t","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}`,
			`delivered {"attempt":1,"id":"x","key_base64":"/w==","sink":"orders","topic":"t"}`,
			`accepted {"id":"c","input":"http","sink":"orders","topic":"never"}`,
			`rescheduled {"id":"c","input":"http","reason":"deliver_now","sink":"orders"}`,
			`dead {"attempt":1,"error":"permanent: no such topic","id":"c","reason":"permanent","sink":"orders","topic":"never"}`,
			`redriven {"id":"c","input":"http","sink":"orders"}`,
			`dead {"attempt":1,"error":"permanent: no such topic","id":"c","reason":"permanent","sink":"orders","topic":"never"}`,
			`discarded {"attempt":1,"id":"c","input":"http","sink":"orders"}`,
			`rescheduled {"id":"a","input":"http","sink":"orders"}`,
			`delivered {"attempt":1,"id":"a","sink":"orders","topic":"t"}`,
			`accepted {"id":"b","input":"http","sink":"orders","topic":"t"}`,
			`cancelled {"id":"b","input":"http","sink":"orders"}`,
			`accepted {"id":"r","input":"http","sink":"orders","topic":"twice"}`,
			`accepted {"id":"e","input":"http","sink":"orders","topic":"twice"}`,
			`retried {"attempt":1,"error":"retry: try again","id":"r","reason":"retry","sink":"orders","topic":"twice"}`,
			`delivered {"attempt":2,"id":"r","sink":"orders","topic":"twice"}`,
			`retried {"attempt":1,"error":"retry: try again","id":"e","reason":"retry","sink":"orders","topic":"twice"}`,
			`expired {"attempt":1,"error":"expired at 2000-01-01T01:00:06.000Z","id":"e","reason":"expired","sink":"orders","topic":"twice"}`,
			`reloaded {"changes":["log.level"]}`,
			`reloaded {"error":"no"}`,
		}
		if diff := cmp.Diff(want, read(t, all)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFilters: each reader gets what it asks for, and bodies only if it asks.
func TestFilters(t *testing.T) {
	run(t, func(b *core.Bridge, s *Stream) {
		filters := map[string]Filter{
			"sink": {Sinks: []string{"orders", "x"}}, "other sink": {Sinks: []string{"x"}}, "event": {Events: []string{Delivered}},
			"topic": {Topic: "orders.new", Events: []string{Accepted}}, "topics": {Topic: "orders.*", Events: []string{Accepted}},
			"id": {ID: "2", Events: []string{Accepted}}, "key": {Key: []byte("k"), Events: []string{Accepted}}, "bytes": {Key: []byte{0xff}, Events: []string{Accepted}},
		}
		readers := make(map[string]*Reader)
		for name, f := range filters {
			readers[name] = subscribe(t, s, f, false)
		}
		bodies := subscribe(t, s, Filter{Events: []string{Accepted, Delivered}}, true)
		accept(t, b.Interceptor, &core.Message{ID: "1", Topic: "orders.new", Body: []byte("<b>"), Key: []byte("k")},
			&core.Message{ID: "2", Topic: "orders.old", Body: []byte{0xff}, Key: []byte{0xff}}, &core.Message{ID: "3", Topic: "order"})
		time.Sleep(time.Second)
		for name, want := range map[string]int{"sink": 6, "other sink": 0, "event": 3, "topic": 1, "topics": 2, "id": 1, "key": 1, "bytes": 1} {
			if got := read(t, readers[name]); len(got) != want {
				t.Errorf("%s: %q, want %d", name, got, want)
			}
		}
		text := strings.Join(read(t, bodies), "\n")
		for _, want := range []string{`"body":"\u003cb\u003e"`, `"body_base64":"/w=="`, `"body":null`} {
			if strings.Count(text, want) != 2 {
				t.Errorf("%s is not in both events of a message:\n%s", want, text)
			}
		}
	})
	if err := (&Filter{Events: []string{"lost"}}).Check(); err == nil || !strings.Contains(err.Error(), "discarded") {
		t.Error(err)
	}
}

// TestSlowReader is cut off, and nobody waits for it; another reads on. An event larger
// than the bound comes if it is alone.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("here")
		slow, quick, lasting := subscribe(t, s, Filter{}, true), subscribe(t, s, Filter{}, false), &Reader{bodies: true, lasting: true}
		if _, err := s.add(lasting); err != nil {
			t.Fatal(err)
		}
		o, began := s.Observer(), time.Now()
		for n := range 10 {
			id := fmt.Sprint(n)
			o.Accepted(t.Context(), core.Acceptance{Messages: []*core.Message{{ID: id, Body: []byte(strings.Repeat("b", maxWaiting/3))}}, Receipts: []core.Receipt{{ID: id}}})
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %s", waited)
		}
		for r, want := range map[*Reader][2]int{slow: {2, 8}, quick: {10, 0}, lasting: {2, 8}} {
			lines, err := r.Next(t.Context())
			if err != nil || len(lines) != want[0] || r.Dropped() != uint64(want[1]) {
				t.Errorf("%d events, %d dropped, %v; want %v", len(lines), r.Dropped(), err, want)
			}
		}
		o.Accepted(t.Context(), core.Acceptance{Messages: []*core.Message{{ID: "large", Body: []byte(strings.Repeat("b", maxWaiting))}}, Receipts: []core.Receipt{{ID: "large"}}})
		if _, err := slow.Next(t.Context()); err != ErrSlow || slow.Dropped() != 9 {
			t.Errorf("%v, %d dropped", err, slow.Dropped())
		}
		if lines, err := lasting.Next(t.Context()); err != nil || len(lines) != 1 {
			t.Errorf("%d lines, %v", len(lines), err)
		}
		slow.Close()
		ended, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		quick.take()
		if _, err := quick.Next(ended); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

func TestReadersAreBounded(t *testing.T) {
	s := New("here")
	first := subscribe(t, s, Filter{}, false)
	for range MaxReaders - 1 {
		subscribe(t, s, Filter{}, false)
	}
	if _, err := s.Subscribe(Filter{}, false); err != ErrReaders {
		t.Error(err)
	}
	first.Close()
	first.Close()
	subscribe(t, s, Filter{}, false)
}

// TestWithoutReaders: to publish for nobody allocates nothing.
func TestWithoutReaders(t *testing.T) {
	s := New("here")
	o, ctx, m := s.Observer(), t.Context(), &core.Message{ID: "a"}
	a := core.Acceptance{Messages: []*core.Message{m}, Receipts: []core.Receipt{{ID: "a"}}}
	d := core.Delivery{Batch: core.Batch{Messages: []*core.Message{m}}, Outcomes: []core.Outcome{{ID: "a", State: core.Delivered}}}
	if n := testing.AllocsPerRun(100, func() {
		o.Accepted(ctx, a)
		o.Delivered(d)
		o.Changed(ctx, core.Change{})
	}); n != 0 {
		t.Errorf("%f allocations", n)
	}
}
