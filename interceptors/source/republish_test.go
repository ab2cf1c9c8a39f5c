package source

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// holding is a sink that confirms when it is let to.
type holding struct {
	mu        sync.Mutex
	release   chan struct{} // nil: at once
	delivered []core.Message
}

func (h *holding) Deliver(_ context.Context, batch []*core.Message) error {
	if h.release != nil {
		<-h.release
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range batch {
		h.delivered = append(h.delivered, *m)
	}
	return nil
}

func (h *holding) Close() error { return nil }

// inBridge runs test beside a bridge with one sink.
func inBridge(t *testing.T, sink *holding, store core.Store, test func(*Parker, *strings.Builder)) {
	bridge := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "out", Sink: sink})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	var log strings.Builder
	test(&Parker{In: bridge.Interceptor, Log: slog.New(slog.NewTextHandler(&log, nil))}, &log)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// one is a record with an ID of the producer's.
func one(body string, isNew bool) []Item {
	return []Item{{Message: &core.Message{ID: "m", Sink: "out", Topic: "orders", Body: []byte(body), Delay: time.Second}, New: isNew}}
}

// TestPublishedAgainWithItsID: a record that its source has never given before is a
// new message if the one with its ID was delivered, whatever it has in it; else it
// is a repeat, or a conflict. One that was given before is a repeat.
func TestPublishedAgainWithItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := new(holding)
		inBridge(t, sink, memstore.New(memstore.Config{}), func(p *Parker, log *strings.Builder) {
			park := func(all []Item) {
				t.Helper()
				if err := p.Park(t.Context(), all, noReject, at); err != nil {
					t.Fatal(err)
				}
				wantDone(t, all, true)
			}
			park(one("first", true))
			park(one("first", true)) // as published twice by a producer
			time.Sleep(2 * time.Second)
			for _, body := range []string{"first", "other", "first"} {
				park(one(body, true))
				time.Sleep(2 * time.Second)
			}
			if strings.Contains(log.String(), "WARN") {
				t.Errorf("log %s", log)
			}
			park(one("first", false))
			if !strings.Contains(log.String(), `level=WARN msg="record was skipped, as a message with its id was delivered a short time ago" source="" message_id=m sink=`) {
				t.Errorf("log %s", log)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			var got []string
			for n, m := range sink.delivered {
				got = append(got, string(m.Body))
				if want := min(n, 1); len(m.Headers) != want || m.ID == "m" != (n == 0) {
					t.Errorf("delivered %+v", m)
				}
			}
			if strings.Join(got, " ") != "first first other first" {
				t.Errorf("delivered %q", got)
			}
			if r := p.Report(); r.Parked != 4 || r.Duplicates != 2 || r.Retried != 0 {
				t.Errorf("%+v", r)
			}
		})
	})
}

// TestPublishedAgainAtOnce: a consumer may be quicker than the confirm of what it
// has got, be it that its record is as the first or other.
func TestPublishedAgainAtOnce(t *testing.T) {
	for _, body := range []string{"first", "other"} {
		synctest.Test(t, func(t *testing.T) {
			sink := &holding{release: make(chan struct{})}
			inBridge(t, sink, memstore.New(memstore.Config{}), func(p *Parker, _ *strings.Builder) {
				if err := p.Park(t.Context(), one("first", true), noReject, at); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				time.AfterFunc(3*time.Second, func() { close(sink.release) })
				if err := p.Park(t.Context(), one(body, true), noReject, at); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if r := p.Report(); len(sink.delivered) != 2 || string(sink.delivered[1].Body) != body || r.Parked != 2 {
					t.Errorf("delivered %+v, %+v", sink.delivered, r)
				}
			})
		})
	}
}

// TestUnknownIsNotNew: what may have been parked by the first try is not parked
// once more, though it was delivered before the second.
func TestUnknownIsNotNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, store := new(holding), newScript(always(core.ErrUnknown), func(int, *core.Message) error {
			time.Sleep(time.Minute)
			return nil
		})
		inBridge(t, sink, store, func(p *Parker, _ *strings.Builder) {
			if err := p.Park(t.Context(), one("first", true), noReject, at); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if r := p.Report(); len(sink.delivered) != 1 || r.Duplicates != 1 {
				t.Errorf("delivered %+v, %+v", sink.delivered, r)
			}
		})
	})
}
