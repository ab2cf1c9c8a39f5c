package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// logBook keeps what is logged.
type logBook struct {
	mu    sync.Mutex
	lines []logLine
}

// logTo writes into a logBook.
type logTo struct {
	*logBook
	attrs []slog.Attr
}

type logLine struct {
	text string
	with map[string]slog.Value
}

func (l logTo) Enabled(context.Context, slog.Level) bool { return true }
func (l logTo) WithAttrs(attrs []slog.Attr) slog.Handler { return logTo{l.logBook, attrs} }
func (l logTo) WithGroup(string) slog.Handler            { return l }
func (l logTo) Handle(_ context.Context, r slog.Record) error {
	line := logLine{text: r.Message, with: make(map[string]slog.Value)}
	r.AddAttrs(l.attrs...)
	r.Attrs(func(a slog.Attr) bool { line.with[a.Key] = a.Value; return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// of returns the lines with text and those that sum them up, what they tell of in
// all, and how many of these there are by reason.
func (b *logBook) of(text string) (lines []logLine, events int, reasons map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reasons = make(map[string]int)
	for _, line := range b.lines {
		switch text {
		case line.text:
			events++
			reasons[line.with["reason"].String()]++
		case line.with["what"].String():
			events += int(line.with["count"].Int64())
			if group := line.with["reasons"]; group.Kind() == slog.KindGroup {
				for _, a := range group.Group() {
					reasons[a.Key] += int(a.Value.Int64())
				}
			}
		default:
			continue
		}
		lines = append(lines, line)
	}
	return lines, events, reasons
}

// Very many dead letters are a few lines a second, which add up.
func TestDeadLettersAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, refused = 200_000, 50_000
		book, store, sink := &logBook{}, memstore.New(memstore.Config{Buckets: 4}), &scripted{began: time.Now()}
		sink.answers(func(batch []*core.Message) error {
			time.Sleep(20 * time.Millisecond) // so that all take about 2 s
			results := make(core.BatchError, len(batch))
			for n, m := range batch {
				results[n] = errBroker
				if m.Topic == "refused" {
					results[n] = core.Classify(core.Permanent, errBroker)
				}
			}
			return results
		})
		d := &core.Dispatcher{Name: "orders", Sink: sink, Retry: core.RetryPolicy{MaxAttempts: 1}, Log: slog.New(logTo{logBook: book})}
		bridge := core.NewBridge(store, core.Options{}, d)
		for n := range all {
			m := message(fmt.Sprintf("m%d", n), 0)
			if n < refused {
				m.Topic = "refused"
			}
			if r := bridge.Accept(t.Context(), m)[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- bridge.Run(ctx) }()
		for d.Totals().Dead < all {
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		stop() // what was counted last is not to be lost with it
		if err := <-ended; err != nil {
			t.Error(err)
		}
		lines, events, reasons := book.of("dead letter")
		if most := 2 * (int(took/time.Second) + 1); len(lines) > most || took < time.Second {
			t.Errorf("%d lines in %s, want at most %d", len(lines), took, most)
		}
		if events != all || reasons["permanent"] != refused || reasons["attempts"] != all-refused {
			t.Errorf("the lines tell of %d dead letters, %v; want %d, of which %d permanent", events, reasons, all, refused)
		}
		for _, line := range lines {
			if line.text == "dead letter" {
				if line.with["message_id"].String() == "" || line.with["topic"].String() == "" || line.with["attempt"].Int64() != 1 || line.with["err"].String() == "" {
					t.Errorf("an example is %v", line.with)
				}
				continue
			}
			if ids, _ := line.with["examples"].Any().([]string); len(ids) == 0 || len(ids) > 3 || line.with["sink"].String() != "orders" {
				t.Errorf("a summary is %v", line.with)
			}
		}
		synctest.Wait()
	})
}

// A retry is logged, and one alone is not summed up.
func TestRetriesAreLogged(t *testing.T) {
	book := &logBook{}
	dispatchers := orders(func(d *core.Dispatcher) {
		d.Log, d.Retry.Initial, d.Retry.Multiplier = slog.New(logTo{logBook: book}), 5*time.Second, 1
	})
	inWorld(t, dispatchers, func(w *world) {
		lost := core.Classify(core.Unknown, errors.New("reply was lost"))
		w.sinks["orders"].answers(failing(lost))
		traced := message("a", 0)
		traced.Headers = []core.Header{{Name: "traceparent", Value: []byte(parentOfTest)}}
		w.accept(traced)
		time.Sleep(3 * time.Second)
		w.sinks["orders"].answers(nil)
		time.Sleep(10 * time.Second)
		lines, events, reasons := book.of("delivery failed, will be retried")
		if len(lines) != 1 || events != 1 || reasons["unknown"] != 1 {
			w.t.Fatalf("lines %v tell of %d retries, want one", lines, events)
		}
		with := lines[0].with
		if with["message_id"].String() != "a" || with["topic"].String() != "t" || with["attempt"].Int64() != 1 || with["trace_id"].String() != traceOfTest ||
			with["retry_in"].Duration() != 5*time.Second || with["err"].String() == "" {
			t.Errorf("the line has %v", with)
		}
	})
}

// What is counted is told when the second is over, though nothing more happens and
// the sink goes on.
func TestLastSummaryComesWithoutAnEvent(t *testing.T) {
	book := &logBook{}
	dispatchers := orders(func(d *core.Dispatcher) { d.Log = slog.New(logTo{logBook: book}) })
	inWorld(t, dispatchers, func(w *world) {
		w.sinks["orders"].answers(failing(core.Classify(core.Permanent, errBroker)))
		w.accept(message("a", 0), message("b", 0), message("c", 0), message("d", 0), message("e", 0), message("f", 0))
		time.Sleep(time.Second)
		synctest.Wait()
		lines, events, _ := book.of("dead letter")
		if len(lines) != 2 || events != 6 {
			w.t.Fatalf("lines %v tell of %d, want two of six", lines, events)
		}
		if ids, _ := lines[1].with["examples"].Any().([]string); fmt.Sprint(ids) != "[b c d]" {
			t.Errorf("examples are %v, want b, c and d", ids)
		}
		w.accept(message("g", 0))
		time.Sleep(time.Hour)
		if lines, events, _ := book.of("dead letter"); len(lines) != 3 || events != 7 {
			t.Errorf("%d lines tell of %d, want three of seven", len(lines), events)
		}
	})
}

// What expires and what a crash cut off are dead letters as well.
func TestEveryKindOfDeadLetterIsLogged(t *testing.T) {
	book := &logBook{}
	dispatchers := orders(func(d *core.Dispatcher) { d.Log = slog.New(logTo{logBook: book}) })
	inWorld(t, dispatchers, func(w *world) {
		w.sinks["orders"].answers(func([]*core.Message) error { return core.Classify(core.Blocked, errBroker) })
		w.accept(message("a", 0, func(m *core.Message) { m.TTL = time.Minute }))
		time.Sleep(time.Hour)
		_, events, reasons := book.of("dead letter")
		if got := dispatchers[0].Totals(); events != 1 || reasons["expired"] != 1 || got.Expired != 1 {
			t.Errorf("the lines tell of %d dead letters, %v, and %d expired", events, reasons, got.Expired)
		}
	})
}

// A sink that goes up and down all the time does not fill the log.
func TestPausesAreSummedUp(t *testing.T) {
	book := &logBook{}
	dispatchers := orders(func(d *core.Dispatcher) { d.Log, d.MaxBatch = slog.New(logTo{logBook: book}), 1 })
	inWorld(t, dispatchers, func(w *world) {
		pauses := 0
		down := false
		w.sinks["orders"].answers(func([]*core.Message) error {
			if down = !down; down {
				pauses++
				return core.Classify(core.Blocked, errBroker)
			}
			return nil
		})
		for n := range 100 {
			w.accept(message(fmt.Sprintf("m%d", n), 0))
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for _, text := range []string{"sink paused, its messages stay parked", "sink resumed"} {
			if lines, events, _ := book.of(text); events != pauses || pauses != 100 || len(lines) > 30 {
				w.t.Errorf("%d lines tell of %d events of 100, want at most 30: %s", len(lines), events, text)
			}
		}
	})
}
