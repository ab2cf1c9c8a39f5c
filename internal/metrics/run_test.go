package metrics

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// scripted is a sink that does what the topic of a message says.
type scripted struct{ failed map[string]bool }

func (s *scripted) Deliver(_ context.Context, batch []*core.Message) error {
	time.Sleep(20 * time.Millisecond)
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		switch {
		case m.Topic == "refused":
			results[n] = core.Classify(core.Permanent, errors.New("no"))
		case m.Topic == "later" && !s.failed[m.ID]:
			s.failed[m.ID] = true
			results[n] = errors.New("try again")
		case m.Topic == "down":
			return core.Classify(core.Blocked, errors.New("login failed"))
		}
	}
	return results
}

func (*scripted) Close() error { return nil }

// plugged is a sink that tells about itself as a plugin does.
type plugged struct{ scripted }

func (*plugged) Describe() map[string]string {
	return map[string]string{"state": "running", "restarts": "2"}
}

// inBridge runs f in virtual time, with a bridge that m observes, and stops the bridge.
func inBridge(t *testing.T, m *Metrics, f func(ctx context.Context, bridge *core.Bridge)) {
	synctest.Test(t, func(t *testing.T) {
		orders := &core.Dispatcher{Name: "orders", Sink: &scripted{failed: make(map[string]bool)}, Retry: core.RetryPolicy{Jitter: -1}}
		mail := &core.Dispatcher{Name: "mail", Sink: &plugged{}, Retry: core.RetryPolicy{Jitter: -1}}
		bridge := core.NewBridge(memstore.New(memstore.Config{Buckets: 2}), core.Options{Observer: m.Observer()}, orders, mail)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- bridge.Run(ctx) }()
		f(ctx, bridge)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// scrape returns the lines of our metrics, without comments and buckets of histograms.
func scrape(t *testing.T, m *Metrics) []string {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "delaybridge_") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// script does something of everything.
func script(ctx context.Context, t *testing.T, bridge *core.Bridge) {
	t.Helper()
	in := bridge.For("http")
	message := func(id, topic string) *core.Message {
		return &core.Message{ID: id, Sink: "orders", Topic: topic, Key: []byte("k"), Delay: time.Second}
	}
	expiring := message("expires", "down")
	expiring.Sink, expiring.TTL = "mail", 2*time.Second
	bad := message("b", "t")
	bad.Priority = 10
	elsewhere := message("e", "t")
	elsewhere.Sink = "made-up"
	in.Accept(ctx, message("1", "listed"), message("2", "free"), message("3", "later"), message("4", "refused"), expiring)
	bridge.For("orders-in").Accept(ctx, message("1", "listed"), message("1", "else"), bad, elsewhere)
	in.Refused(ctx, "malformed")
	in.Refused(ctx, "made up by somebody")
	far := message("far", "t")
	far.Delay = time.Hour
	in.Accept(ctx, far)
	if _, err := in.Reschedule(ctx, core.Ref{ID: "far", Sink: "orders", Key: []byte("k")}, core.When{After: 2 * time.Hour}); err != nil {
		t.Error(err)
	}
	if _, err := in.Cancel(ctx, core.Ref{ID: "far", Sink: "orders", Key: []byte("k")}); err != nil {
		t.Error(err)
	}
	if _, err := in.Cancel(ctx, core.Ref{ID: "nothing", Sink: "made-up"}); err == nil {
		t.Error("cancelled what is not there")
	}
	time.Sleep(time.Minute)
	synctest.Wait()
}

// fullRun is a run in which everything happens; then it calls f.
func fullRun(t *testing.T, f func(*Metrics)) {
	m := New(Config{Version: "v1.2.3", Topics: map[string][]string{"orders": {"listed"}, "mail": nil},
		Loaded: func() Loaded { return Loaded{Generation: 2, At: time.Unix(1_700_000_000, 0), Failed: true} }, SpansDropped: func() uint64 { return 6 },
		ExportsFailed: map[string]func() uint64{"metrics": func() uint64 { return 0 }, "spans": func() uint64 { return 2 }}})
	inBridge(t, m, func(ctx context.Context, bridge *core.Bridge) {
		bridge.SetAbout(core.About{Sources: func() []core.SourceReport {
			return []core.SourceReport{{Source: "orders-in", Parked: 4, Duplicates: 3, Rejected: 2, Skipped: 1, Retried: 5, Lag: 7, LagTime: 8 * time.Second},
				{Source: "other", Lag: -1, LagTime: -1, Trouble: "down"}}
		}})
		m.Watch(Watched{Bridge: bridge.Interceptor,
			Events: func() Events {
				return Events{Readers: 1, CutOff: 2, Sends: true, FinalSent: 3, FinalFull: 4, FinalRefused: 5, OtherSent: 6, OtherFull: 7, OtherRefused: 8, FinalWaiting: 9, OtherWaiting: 10}
			},
			ClockOffset: func(context.Context) (time.Duration, error) { return -1500 * time.Millisecond, nil },
			Memory: func(context.Context) (Memory, error) {
				return Memory{Used: 2e6, Dataset: 1e6, Limit: 3e6, Free: 1e6}, nil
			}})
		script(ctx, t, bridge)
		waiting := make([]*core.Message, 1999)
		for n := range waiting {
			waiting[n] = &core.Message{Sink: "mail", Topic: "t", Delay: time.Hour}
		}
		bridge.Accept(ctx, waiting...)
		m.OnRedisCall("park", 2*time.Millisecond, nil)
		m.OnRedisCall("park", 2*time.Millisecond, core.ErrFull)
		m.OnRedisCall("take", 2*time.Millisecond, core.ErrUnknown)
		f(m)
	})
}

func TestScriptedRun(t *testing.T) {
	want, err := os.ReadFile("testdata/run.txt")
	if err != nil {
		t.Fatal(err)
	}
	fullRun(t, func(m *Metrics) {
		if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), scrape(t, m)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		lint(t, m)
	})
}

func lint(t *testing.T, m *Metrics) {
	t.Helper()
	problems, err := testutil.GatherAndLint(m.Gatherer())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
