package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// shared is a store that several instances tell about themselves in.
type shared struct {
	*memstore.Store
	name   string
	report func() []byte
	others []core.Announcement
	err    error
}

func (s *shared) Announce(report func() []byte) string {
	s.report = report
	return s.name
}

func (s *shared) Announced(context.Context) ([]core.Announcement, error) {
	return append(s.others, core.Announcement{Instance: s.name, Report: []byte(`{"version":"before"}`)}), s.err
}

// talking is a sink that tells about itself.
type talking struct{ scripted }

func (*talking) Describe() map[string]string { return map[string]string{"state": "running"} }

func TestInstancesAndStatsOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errNoBroker := errors.New("no broker")
		bridge := func(store core.Store) (*core.Interceptor, *scripted) {
			sink := &scripted{began: time.Now()}
			d := &core.Dispatcher{Name: "orders", Sink: sink}
			b := core.NewBridge(store, core.Options{}, d, &core.Dispatcher{Name: "mails", Sink: &talking{scripted{began: time.Now()}}})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- b.Run(ctx) }()
			t.Cleanup(func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			return b.Interceptor, sink
		}
		first, second := &shared{Store: memstore.New(memstore.Config{Buckets: 2}), name: "b"}, &shared{Store: memstore.New(memstore.Config{Buckets: 2}), name: "a"}
		one, sink := bridge(first)
		two, slow := bridge(second)
		slow.answers(func([]*core.Message) error { time.Sleep(time.Millisecond); return nil })
		two.SetAbout(core.About{Version: "v2", Config: "c0ffee", Listeners: map[string]string{"http": "127.0.0.1:1"},
			Sources: func() []core.SourceReport {
				return []core.SourceReport{{Source: "s", Parked: 7, Lag: -1, Trouble: strings.Repeat("t", 1000), Since: time.Unix(1, 0)}}
			}})
		accept := func(in *core.Interceptor, n int) {
			for range n {
				if r := in.Accept(t.Context(), &core.Message{Sink: "orders", Topic: "t"})[0]; r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			time.Sleep(time.Second)
		}
		accept(one, 3)
		accept(two, 4)
		time.Sleep(2 * time.Minute)
		accept(two, 5)
		sink.answers(func([]*core.Message) error { return core.Classify(core.Blocked, errNoBroker) })
		accept(one, 1)
		first.others = []core.Announcement{{Instance: "a", Age: 3 * time.Second, Report: second.report()},
			{Instance: "old", Age: -1}, {Instance: "odd", Age: 1, Report: []byte("{")}}

		all, err := one.Instances(t.Context())
		if err != nil || len(all) != 4 || all[0].Name != "a" || all[1].Name != "b" || !all[1].Self || all[2].Age >= 0 || all[3].Age >= 0 {
			t.Fatalf("instances: %+v, %v", all, err)
		}
		if a := all[0]; a.Self || a.Age != 3*time.Second || a.Version != "v2" || a.Config != "c0ffee" || a.Listeners["http"] != "127.0.0.1:1" || a.Omitted != 0 ||
			len(a.Sources) != 1 || a.Sources[0].Lag != -1 || len(a.Sources[0].Trouble) > 128 || !a.Sources[0].Since.Equal(time.Unix(1, 0)) {
			t.Errorf("another instance: %+v", a)
		}
		if w := all[0].Sinks[0]; w.Sink != "orders" || w.Buckets != 2 || w.Totals.Delivered != 9 || w.Last1m.Delivered != 5 || w.Last5m.Accepted != 9 || w.Last60m.Accepted != 9 || w.Last1m.LatenessMax == 0 {
			t.Errorf("its work: %+v", w)
		}
		if w := all[1].Sinks[0]; w.Paused != "blocked: no broker" || w.PausedClass != core.Blocked || w.PausedSince.IsZero() || w.InFlight > 1 {
			t.Errorf("work of this one: %+v", w)
		}

		stats, err := one.Stats(t.Context(), "")
		if err != nil || stats.Instances != 2 || stats.Unreported != 2 || len(stats.Sinks) != 2 || len(stats.Sources) != 1 || stats.Sources[0].Instance != "a" {
			t.Fatalf("stats: %+v, %v", stats, err)
		}
		if w := stats.Sinks[0].Work; w.Buckets != 4 || w.Totals.Accepted != 13 || w.Totals.Delivered != 12 || w.Last1m.Delivered != 5 || w.Paused != "blocked: no broker" || w.Last5m.LatenessP99 < time.Millisecond {
			t.Errorf("stats of all: %+v", w)
		}
		if w := stats.Sinks[1].Work; w.Details["state"] != "running" {
			t.Errorf("details of this one: %+v", w)
		}
		for name, want := range map[string]uint64{"a": 9, "b": 4} {
			stats, err := one.Stats(t.Context(), name)
			if err != nil || stats.Instances != 1 || stats.Sinks[0].Work.Totals.Accepted != want || stats.Sinks[0].Scheduled != 1 ||
				(stats.Sinks[1].Work.Details["state"] == "running") != (name == "b") {
				t.Errorf("stats of %s: %+v, %v", name, stats, err)
			}
		}
		for _, name := range []string{"old", "odd", "none"} {
			_, err := one.Stats(t.Context(), name)
			if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "instance" {
				t.Errorf("stats of %s: %v", name, err)
			}
		}
		first.err = core.ErrUnavailable
		if _, err := one.Stats(t.Context(), ""); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("what is not known is told: %v", err)
		}
	})
}

// Fields that are not known, of a later version, are ignored, and those that are missing
// are zero.
func TestReportOfAnotherVersion(t *testing.T) {
	store := &shared{Store: memstore.New(memstore.Config{}), name: "a", others: []core.Announcement{
		{Instance: "b", Report: []byte(`{"version":"v9","later":{"x":[1]},"sinks":[{"sink":"orders","all":{"acc":3,"more":1},"next":true},{"sink":"mails"}]}`)}}}
	in := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "orders"}).Interceptor
	stats, err := in.Stats(t.Context(), "b")
	if err != nil || len(stats.Sinks) != 1 || stats.Sinks[0].Work.Totals.Accepted != 3 || stats.Sinks[0].Work.Last5m != (core.Recent{}) {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A report is small, and never larger than a store takes: what does not fit is left out.
func TestReportIsBounded(t *testing.T) {
	report := func(sinks, sources int) (text []byte, told core.Instance) {
		store := &shared{Store: memstore.New(memstore.Config{}), name: "a"}
		var dispatchers []*core.Dispatcher
		for n := range sinks {
			dispatchers = append(dispatchers, &core.Dispatcher{Name: fmt.Sprint("sink", n)})
		}
		in := core.NewBridge(store, core.Options{}, dispatchers...).Interceptor
		in.SetAbout(core.About{Version: "v1", Sources: func() []core.SourceReport { return make([]core.SourceReport, sources) }})
		for n := range sinks {
			in.Accept(t.Context(), &core.Message{Sink: fmt.Sprint("sink", n), Topic: "t"})
		}
		text = store.report()
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		return text, told
	}
	if text, told := report(1, 1); len(text) > 300 || told.Omitted != 0 || len(told.Sinks) != 1 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if text, told := report(3000, 10); len(text) > core.MaxReport || len(told.Sinks)+told.Omitted != 3000 || len(told.Sinks) < 100 || len(told.Sources) != 10 {
		t.Errorf("%d bytes with %d sinks and %d sources, %d omitted", len(text), len(told.Sinks), len(told.Sources), told.Omitted)
	}
	if text, told := report(2, 5000); len(text) > core.MaxReport || len(told.Sources)+told.Omitted != 5000 || len(told.Sinks) != 2 {
		t.Errorf("%d bytes with %d sinks and %d sources, %d omitted", len(text), len(told.Sinks), len(told.Sources), told.Omitted)
	}
}

// A store that can't tell its instances about each other has one.
func TestInstanceAlone(t *testing.T) {
	in := core.NewBridge(opaqueStore{memstore.New(memstore.Config{})}, core.Options{}, &core.Dispatcher{Name: "orders"}).Interceptor
	if all, err := in.Instances(t.Context()); err != nil || len(all) != 1 || !all[0].Self || all[0].Name == "" {
		t.Errorf("%+v, %v", all, err)
	}
}

type opaqueStore struct{ core.Store }
