package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/internal/bridgetest"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// TestPublisherThroughFaults: requests are lost before and after they are done, or put
// off; each message is stored once, and those of one caller in order.
func TestPublisherThroughFaults(t *testing.T) {
	const callers, each = 8, 100
	d := newListener(t, httplistener.Config{})
	d.first(1000, func(w http.ResponseWriter, r *http.Request) {
		switch rand.N(8) {
		case 0:
			d.dropReply(w, r)
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"status":503,"code":"unavailable","stored":false}`)
		default:
			d.real.ServeHTTP(w, r)
		}
	})
	p := d.client(t, client.Config{MaxPending: 50}).NewPublisher()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			var results []*client.Result
			for n := range each {
				m := client.Message{ID: fmt.Sprintf("%d-%03d", caller, n), Topic: "t", Delay: time.Hour}
				results = append(results, p.Publish(context.Background(), m))
			}
			for _, r := range results {
				if _, err := r.Get(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	seen, last := map[string]bool{}, map[byte]string{}
	for _, m := range d.store.parked {
		if !seen[m.ID] && m.ID < last[m.ID[0]] {
			t.Errorf("%s was stored after %s", m.ID, last[m.ID[0]])
		}
		seen[m.ID], last[m.ID[0]] = true, max(m.ID, last[m.ID[0]])
	}
	if n := count(t, d.client(t, client.Config{})); n != callers*each || len(seen) != n {
		t.Errorf("%d messages are stored, of %d IDs", n, len(seen))
	}
}

// TestPublisherServerGone: the bridge ends in the middle; the results are true, and with
// them the rest is published when it is back.
func TestPublisherServerGone(t *testing.T) {
	d := newListener(t, httplistener.Config{})
	p := d.client(t, client.Config{Patience: time.Second / 4, MaxBatch: 20}).NewPublisher()
	list := messages(400, 1)
	results := publishAll(p, list[:200])
	if _, err := results[100].Get(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.first(1<<30, d.dropReply)
	results = append(results, publishAll(p, list[200:])...)
	if err := p.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.first(0, nil)
	stored := make(map[string]bool)
	for e, err := range d.client(t, client.Config{}).List(context.Background(), client.Query{}) {
		if stored[e.ID] = true; err != nil {
			t.Fatal(err)
		}
	}
	var again []client.Message
	for n, r := range results {
		receipt, err := outcome(t, r)
		if unknown := errors.Is(err, client.ErrUnknown); !unknown && stored[receipt.ID] != (err == nil) || err != nil && !unknown && !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s: %v, it is stored: %t", receipt.ID, err, stored[receipt.ID])
		}
		if err != nil {
			again = append(again, list[n])
		}
	}
	if len(again) == 0 {
		t.Error("nothing failed")
	}
	for _, r := range publishAll(p, again) {
		if _, err := r.Get(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if n := count(t, d.client(t, client.Config{})); n != len(list) {
		t.Errorf("%d messages are stored", n)
	}
}

// collector is a sink that keeps what is delivered.
type collector struct {
	mu  sync.Mutex
	got []string // "key id"
}

func (c *collector) Deliver(_ context.Context, messages []*core.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		c.got = append(c.got, fmt.Sprintf("%s %s", m.Key, m.ID))
	}
	return nil
}

func (c *collector) Close() error { return nil }

func (c *collector) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// TestPublisherToSink: a whole bridge delivers each message once, those of a key in
// order.
func TestPublisherToSink(t *testing.T) {
	const total = 3000
	sink := new(collector)
	bridge := bridgetest.Start(t, "orders", func(context.Context, json.RawMessage) (core.Sink, error) { return sink, nil }, nil)
	p := bridge.NewPublisher()
	at := time.Now().Add(time.Second)
	for n := range total {
		p.Publish(context.Background(), client.Message{ID: fmt.Sprintf("%04d", n), Topic: "t", Key: []byte{'a' + byte(n%3)}, DeliverAt: at})
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "all is delivered", func() bool { return len(sink.all()) >= total })
	for key := range 3 {
		var ids []string
		for _, text := range sink.all() {
			if text[0] == 'a'+byte(key) {
				ids = append(ids, text)
			}
		}
		if !slices.IsSorted(ids) || len(slices.Compact(ids)) != total/3 {
			t.Errorf("key %c has %d messages, in order: %t", 'a'+key, len(ids), slices.IsSorted(ids))
		}
	}
}
