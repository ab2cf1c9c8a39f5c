package source

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// troubled is a source that fails at once, with one error after another, and
// then runs.
type troubled struct {
	fail []error
	runs []time.Time
}

func (s *troubled) Run(ctx context.Context) error {
	s.runs = append(s.runs, time.Now())
	if n := len(s.runs); n <= len(s.fail) {
		return s.fail[n-1]
	}
	<-ctx.Done()
	return nil
}

func (s *troubled) Report() core.SourceReport {
	return core.SourceReport{Parked: 7, Lag: -1, LagTime: -1}
}

// TestSourceIsRunAgain: what may pass is tried again, after ever longer, and told
// of meanwhile.
func TestSourceIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &troubled{fail: []error{errors.New("no broker"), nil, errors.New("no broker")}}
		var log strings.Builder
		s := &Supervisor{Reader: source, Name: "orders", Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		begin, ended := time.Now(), make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		if got := s.Report(); got != (core.SourceReport{Source: "orders", Parked: 7, Lag: -1, LagTime: -1, Trouble: "no broker", Since: begin}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour)
		if got := s.Report(); got != (core.SourceReport{Source: "orders", Parked: 7, Lag: -1, LagTime: -1}) {
			t.Errorf("%+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(source.runs); n != 4 || source.runs[3].Sub(begin) != 7*time.Second {
			t.Errorf("run at %v", source.runs)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 3 {
			t.Errorf("%d errors in\n%s", n, log.String())
		}
	})
}

// TestSourceStaysStopped: a bad record is not tried again, and ends nothing but
// its source.
func TestSourceStaysStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &RefusedError{At: "topic orders, partition 3, offset 17", Reason: core.Invalidf("deliver_at", "is missing")}
		source := &troubled{fail: []error{refused}}
		var log strings.Builder
		s := &Supervisor{Reader: source, Name: "orders", Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := s.Report(); !got.Stopped || !strings.Contains(got.Trouble, "topic orders, partition 3, offset 17") || len(source.runs) != 1 {
			t.Errorf("%+v after %d runs", got, len(source.runs))
		}
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "offset 17") || !strings.Contains(text, "source=orders") {
			t.Errorf("log %s", text)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestReportTellsOfTrouble: what holds a source up is in its report until it is
// over, or nobody has tried for long.
func TestReportTellsOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(Parker)
		log := slog.New(slog.DiscardHandler)
		one, two := Troubles{Log: log, Of: p}, Troubles{Log: log, Of: p}
		want := func(text string, since time.Time) {
			t.Helper()
			if r := p.Report(); r.Trouble != text || !r.Since.Equal(since) {
				t.Errorf("%q since %s, want %q since %s", r.Trouble, r.Since, text, since)
			}
		}
		begin := time.Now()
		one.Report("can't fetch", errors.New("no leader"))
		time.Sleep(10 * time.Second)
		two.Report("can't fetch", errors.New("no route"))
		want("can't fetch: no route", begin)
		one.Over() // not of the last
		want("can't fetch: no route", begin)
		two.Over()
		want("", time.Time{})
		one.Report("can't fetch", errors.New("no leader"))
		time.Sleep(troubleLasts)
		want("", time.Time{})
	})
}

// TestTroublesLogEachOutage: one line a minute while an outage lasts, one when it is over,
// and the next outage is logged from its beginning, however soon it comes.
func TestTroublesLogEachOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		troubles := Troubles{Log: slog.New(slog.NewTextHandler(&log, nil)), Of: new(Parker)}
		for range 2 {
			for range 90 {
				troubles.Report("can't fetch", errors.New("no leader"))
				time.Sleep(time.Second)
			}
			troubles.Over()
			troubles.Over()
		}
		if got, want := strings.Count(log.String(), "level=WARN"), 4; got != want {
			t.Errorf("%d warnings, want %d:\n%s", got, want, log.String())
		}
		if got := strings.Count(log.String(), `msg="source has recovered" failed_for=1m30s`); got != 2 {
			t.Errorf("%d recoveries, want 2:\n%s", got, log.String())
		}
	})
}

// TestParkLogsEachOutage: the same holds for the store.
func TestParkLogsEachOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := &Parker{Name: "orders", Log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 2 {
			tries := 0
			err := p.repeat(t.Context(), "can't park", func() error {
				if tries++; tries <= 3 {
					return core.ErrUnavailable
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if text := log.String(); strings.Count(text, `source=orders what="can't park"`) != 2 || strings.Count(text, "source has recovered") != 2 {
			t.Errorf("want two outages and two recoveries:\n%s", text)
		}
		if r := p.Report(); r.Trouble != "" || r.Retried != 6 {
			t.Errorf("%+v", r)
		}
	})
}

// TestSkip: what can't be parked is left out, and the log says which, where that was
// chosen.
func TestSkip(t *testing.T) {
	var log strings.Builder
	p := &Parker{In: interceptor(newScript(), core.Limits{}), Name: "orders", Skip: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	all := items("a", "b", "c", "d")
	all[1].Message.Topic = ""
	all[3].Message, all[3].Err = nil, errors.New("not a message")
	if err := p.Park(t.Context(), all, nil, at); err != nil {
		t.Fatal(err)
	}
	p.Flush()
	wantDone(t, all, true, true, true, true)
	if got := p.Report(); got != (core.SourceReport{Parked: 2, Skipped: 2, Lag: -1, LagTime: -1}) {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{`message_id=b sink=out topic="" at="position 1" err="topic: is missing"`, `count=1 examples="[position 3]"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
}
