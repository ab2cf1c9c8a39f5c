package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func header(name, value string) core.Header {
	return core.Header{Name: name, Value: []byte(value)}
}

// TestPublishedAgain: what a listener is given of a message that was delivered,
// with the headers of that, is a new message, counted, under an ID of its own.
func TestPublishedAgain(t *testing.T) {
	dispatchers := orders(nil)
	inWorld(t, dispatchers, func(w *world) {
		var sent []*core.Message
		w.sinks["orders"].answers(func(batch []*core.Message) error {
			sent = append(sent, batch...)
			return nil
		})
		first := message("a", 0)
		first.Headers = []core.Header{header("x", "1")}
		w.accept(first)
		var got *core.Message
		for hop, want := range []string{"a", "a~1", "a~2", "a~3"} {
			time.Sleep(time.Second)
			synctest.Wait()
			if got = sent[len(sent)-1]; len(sent) != hop+1 || got.ID != want {
				t.Fatalf("%d delivered, the last with the ID %s", len(sent), got.ID)
			}
			wantHeaders := []core.Header{header("x", "1")}
			if hop > 0 {
				wantHeaders = append(wantHeaders, header("delaybridge-hop", fmt.Sprint(hop)))
			}
			if diff := cmp.Diff(wantHeaders, got.Headers); diff != "" {
				t.Errorf("hop %d: %s", hop, diff)
			}
			again := message(got.ID, time.Millisecond)
			again.Headers = got.DeliveredHeaders()
			if hop < 3 {
				w.accept(again)
				repeat := message(got.ID, time.Millisecond) // as whose answer was lost
				repeat.Headers = got.DeliveredHeaders()
				if r := w.in.Accept(t.Context(), repeat)[0]; r.Err != nil || !r.Duplicate || r.ID != again.ID {
					t.Errorf("repeat: %+v", r)
				}
			}
		}
		if totals := dispatchers[0].Totals(); totals.Accepted != 4 || totals.Republished != 3 || totals.Repeated != 3 {
			t.Errorf("%+v", totals)
		}
	})
}

// TestHopsAreBounded, and neither count as headers nor can be made up.
func TestHopsAreBounded(t *testing.T) {
	inWorld(t, orders(nil), func(w *world) {
		of := func(headers ...core.Header) error {
			m := message("", time.Hour)
			m.Headers = headers
			return w.in.Accept(t.Context(), m)[0].Err
		}
		most := make([]core.Header, 64)
		for n := range most {
			most[n] = header("h", "v")
		}
		if err := of(append(most, header("delaybridge-id", "i"), header("DELAYBRIDGE_ATTEMPT", "1"), header("delaybridge-deliver-at", "x"), header("delaybridge-hop", "999"))...); err != nil {
			t.Error(err)
		}
		for name, err := range map[string]error{
			"limits.max_hops": of(header("delaybridge-hop", "1000")),
			"from 1 on":       of(header("delaybridge-hop", "-1"), header("delaybridge-attempt", "1")),
			"is reserved":     of(header("delaybridge-id", "i")),
			"reserved":        of(header("delaybridge-attempt", "1"), header("delaybridge-else", "1")),
		} {
			if _, ok := errors.AsType[*core.InvalidError](err); !ok || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		long := message(strings.Repeat("i", core.MaxIDLen), time.Hour)
		long.Headers = []core.Header{header("delaybridge-attempt", "1"), header("delaybridge-id", long.ID)}
		if r := w.in.Accept(t.Context(), long)[0]; r.Err != nil || !strings.HasSuffix(r.ID, "~1") {
			t.Errorf("%+v", r)
		}
	})
}
