package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

func TestMessageArrivesAsItIs(t *testing.T) {
	at := time.Now().AddDate(0, 0, 100).Truncate(time.Second).Add(5e6).In(time.FixedZone("", 3600))
	headers := []client.Header{{Name: "b", Value: []byte("1")}, {Name: "a", Value: nil}, {Name: "b", Value: []byte{}},
		{Name: "b", Value: []byte{0, 255}}, {Name: "é\"\\<", Value: []byte("\"\\<\té")}, {Name: "lines", Value: []byte("some lines\nof text")}, {Name: "cr", Value: []byte("some\rtext")}, {Name: "nul", Value: []byte("some text\x00")}}
	tests := map[string]struct {
		in   client.Message
		want core.Message
	}{
		"least": {client.Message{Delay: client.Now}, core.Message{}},
		"texts": {client.Message{Key: []byte("k\"<"), Body: []byte("h\u2028\"\n"), Delay: 1500 * time.Millisecond, TTL: time.Hour, Priority: 9,
			Options: map[string]string{"partition": "3", "a": "\"\n"}},
			core.Message{Key: []byte("k\"<"), Body: []byte("h\u2028\"\n"), Delay: 1500 * time.Millisecond, TTL: time.Hour, Priority: 9,
				Options: map[string]string{"partition": "3", "a": "\"\n"}}},
		"bytes":   {client.Message{Key: []byte{255}, Body: []byte{254, 0}, Delay: client.Now}, core.Message{Key: []byte{255}, Body: []byte{254, 0}}},
		"empties": {client.Message{Key: []byte{}, Body: []byte{}, Delay: client.Now}, core.Message{Key: []byte{}, Body: []byte{}}},
		"times":   {client.Message{DeliverAt: at, ExpiresAt: at.Add(time.Hour)}, core.Message{DeliverAt: at, ExpiresAt: at.Add(time.Hour)}},
		"headers": {client.Message{Headers: headers, Delay: client.Now}, core.Message{Headers: []core.Header{
			{Name: "b", Value: []byte("1")}, {Name: "a", Value: nil}, {Name: "b", Value: []byte{}}, {Name: "b", Value: []byte{0, 255}},
			{Name: "é\"\\<", Value: []byte("\"\\<\té")}, {Name: "lines", Value: []byte("some lines\nof text")}, {Name: "cr", Value: []byte("some\rtext")}, {Name: "nul", Value: []byte("some text\x00")}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, c := fixture(t)
			test.in.ID, test.in.Topic = "a/b:1", "t"
			test.want.ID, test.want.Topic, test.want.Sink = "a/b:1", "t", "orders"
			if _, err := c.Publish(context.Background(), test.in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]core.Message{test.want}, d.store.parked, cmpopts.EquateApproxTime(0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAnyBytesArriveAsTheyAre publishes what nobody would think of, one by one
// and in batches, and has Get give it back.
func TestAnyBytesArriveAsTheyAre(t *testing.T) {
	d, c := fixture(t)
	anyBytes := rapid.Custom(func(t *rapid.T) []byte {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return []byte(rapid.String().Draw(t, "text"))
		case 2:
			return []byte(strings.Repeat(rapid.SampledFrom([]string{`"`, "\x01", "\n", "\u2029"}).Draw(t, "char"), rapid.IntRange(0, 300).Draw(t, "n")))
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
	})
	rapid.Check(t, func(t *rapid.T) {
		messages := make([]client.Message, rapid.IntRange(1, 3).Draw(t, "n"))
		for n := range messages {
			m := client.Message{Topic: "t", Key: anyBytes.Draw(t, "key"), Body: anyBytes.Draw(t, "body"), Delay: time.Hour}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				m.Headers = append(m.Headers, client.Header{Name: rapid.StringMatching(`[a-z"\\é-]{1,5}`).Draw(t, "name"), Value: anyBytes.Draw(t, "value")})
			}
			messages[n] = m
		}
		receipts, err := c.PublishBatch(context.Background(), messages)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range messages {
			got, err := c.Get(context.Background(), client.Ref{ID: receipts[n].ID, Key: want.Key})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Message, cmpopts.IgnoreFields(client.Message{}, "ID", "Sink", "Delay", "DeliverAt")); diff != "" {
				t.Fatal(diff)
			}
		}
	})
	if len(d.store.parked) < 100 {
		t.Errorf("only %d messages were tried", len(d.store.parked))
	}
}

func TestPublishAnswers(t *testing.T) {
	d, c := fixture(t)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	m := client.Message{ID: "one", Topic: "t", Body: []byte("x"), DeliverAt: at}
	want := client.Receipt{ID: "one", Sink: "orders", State: client.Scheduled, DeliverAt: at, Durability: "memory"}
	first, err := c.Publish(context.Background(), m)
	if diff := cmp.Diff(want, first); diff != "" || err != nil {
		t.Errorf("got error %v, and the receipt differs: %s", err, diff)
	}
	again, err := c.Publish(context.Background(), m)
	if want.Duplicate = true; err != nil || again != want {
		t.Errorf("the repeat is %+v, %v", again, err)
	}
	m.Body = []byte("y")
	_, err = c.Publish(context.Background(), m)
	if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrUnknown) || e.Status != 409 {
		t.Errorf("other content: %v", err)
	}
	if m.ID = ""; len(d.asked()) != 3 {
		t.Errorf("asked %v", d.asked())
	}
	a, errA := c.Publish(context.Background(), m)
	b, errB := c.Publish(context.Background(), m)
	if errA != nil || errB != nil || a.ID == b.ID || len(a.ID) != 26 || a.Duplicate || b.Duplicate {
		t.Errorf("without an ID: %+v %v, %+v %v", a, errA, b, errB)
	}
}

func TestInvalidMessagesNameTheField(t *testing.T) {
	_, c := fixture(t)
	at := time.Now().Add(time.Hour)
	tests := map[string]struct {
		m     client.Message
		field string
		code  string
	}{
		"no topic":        {client.Message{}, "topic", "invalid"},
		"bad ID":          {client.Message{ID: "a b", Topic: "t"}, "id", "invalid"},
		"no time":         {client.Message{Topic: "t", DeliverAt: time.Time{}}, "deliver_at", "invalid"},
		"now and later":   {client.Message{Topic: "t", DeliverAt: at, Delay: client.Now}, "deliver_at", "invalid"},
		"no such sink":    {client.Message{Sink: "x", Topic: "t"}, "sink", "invalid"},
		"negative delay":  {client.Message{Topic: "t", Delay: -1}, "delay", "invalid"},
		"both times":      {client.Message{Topic: "t", Delay: 1, DeliverAt: at}, "deliver_at", "invalid"},
		"priority":        {client.Message{Topic: "t", Priority: 10}, "priority", "invalid"},
		"large body":      {client.Message{Topic: "t", Body: make([]byte, 1<<20)}, "", "too_large"},
		"larger body":     {client.Message{Topic: "t", Body: make([]byte, 256<<10+1)}, "body", "too_large"},
		"topic not UTF-8": {client.Message{Topic: "t\xff"}, "topic", "invalid"},
		"name not UTF-8":  {client.Message{Topic: "t", Headers: []client.Header{{Name: "\xff"}}}, "headers", "invalid"},
		"option":          {client.Message{Topic: "t", Options: map[string]string{"a": "\xff"}}, "options", "invalid"},
		"reserved header": {client.Message{Topic: "t", Headers: []client.Header{{Name: "Delaybridge_x"}}}, "headers", "invalid"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			good := client.Message{Topic: "t", Body: []byte(name), Delay: client.Now}
			if test.m.Delay == 0 && test.field != "deliver_at" {
				test.m.Delay = client.Now
			}
			receipt, err := c.Publish(context.Background(), test.m)
			check := func(err error) {
				t.Helper()
				e, ok := errors.AsType[*client.Error](err)
				if !ok || !errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrUnknown) || errors.Is(err, client.ErrUnavailable) {
					t.Fatalf("got %v", err)
				}
				if e.Field != test.field || e.Code != test.code {
					t.Errorf("got field %q, code %q: %v", e.Field, e.Code, err)
				}
			}
			check(err)
			if receipt.ID == "" {
				t.Error("the receipt has no ID")
			}
			receipts, err := c.PublishBatch(context.Background(), []client.Message{good, test.m, good})
			b, ok := errors.AsType[client.BatchError](err)
			if !ok || len(b) != 3 || b[0] != nil || b[2] != nil {
				t.Fatalf("the batch: %v", err)
			}
			if test.field != "" { // in a batch there is room for it
				check(b[1])
			}
			if receipts[0].State != client.Scheduled || receipts[2].State != client.Scheduled || receipts[1].State != "" {
				t.Errorf("got %+v", receipts)
			}
		})
	}
}

// TestLargestBodyFits: text that JSON would blow up is sent as base64.
func TestLargestBodyFits(t *testing.T) {
	d, c := fixture(t)
	body := []byte(strings.Repeat("\x01\"", 128<<10))
	if _, err := c.Publish(context.Background(), client.Message{Topic: "t", Body: body, Delay: client.Now}); err != nil {
		t.Fatal(err)
	}
	if got := d.store.parked[0].Body; string(got) != string(body) {
		t.Errorf("another body arrived, of %d bytes", len(got))
	}
}

func messages(n, size int) []client.Message {
	list := make([]client.Message, n)
	for i := range list {
		list[i] = client.Message{ID: fmt.Sprintf("m-%d", i), Topic: "t", Body: []byte(strings.Repeat("x", size)), Delay: time.Hour}
	}
	return list
}

func (d *listener) parkedOnce(t *testing.T, n int) {
	t.Helper()
	if len(d.store.parked) != n {
		t.Fatalf("%d messages were parked, want %d", len(d.store.parked), n)
	}
	for i, m := range d.store.parked {
		if m.ID != fmt.Sprintf("m-%d", i) {
			t.Fatalf("number %d is %s", i, m.ID)
		}
	}
}

func TestBatchIsSplitToTheLimits(t *testing.T) {
	tests := map[string]struct {
		listener httplistener.Config
		config   client.Config
		n, size  int
		requests int
	}{
		"of messages":        {n: 1201, size: 1, requests: 3},
		"exactly one":        {n: 500, size: 1, requests: 1},
		"of bytes":           {n: 100, size: 100_000, requests: 3},
		"as configured":      {n: 7, config: client.Config{MaxBatch: 3}, requests: 3},
		"one larger than it": {n: 3, size: 2000, config: client.Config{MaxBatchBytes: 1000}, requests: 3},
		// 8 lines, 4 + 4, and each of them in halves
		"the bridge allows fewer":     {n: 8, listener: httplistener.Config{MaxBatch: 2}, requests: 7},
		"the bridge allows less":      {n: 4, size: 300, listener: httplistener.Config{MaxBatchBytes: 1000}, requests: 3},
		"the bridge allows next to 0": {n: 2, size: 300, listener: httplistener.Config{MaxBatchBytes: 1}, requests: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newListener(t, test.listener)
			receipts, err := d.client(t, test.config).PublishBatch(context.Background(), messages(test.n, test.size))
			if err != nil {
				t.Fatal(err)
			}
			d.parkedOnce(t, test.n)
			for n, r := range receipts {
				if r.ID != fmt.Sprintf("m-%d", n) || r.State != client.Scheduled {
					t.Fatalf("receipt %d is %+v", n, r)
				}
			}
			if asked := d.asked(); len(asked) != test.requests {
				t.Errorf("it took the requests %v", asked)
			}
		})
	}
}

// TestOneMessageARequest: what is wrong with one is not the others' fault.
func TestOneMessageARequest(t *testing.T) {
	for name, bad := range map[string]client.Message{
		"invalid": {Topic: "t", Delay: -1}, "too large": {Topic: "t", Body: make([]byte, 1<<20), Delay: 1}, "taken": {ID: "m-0", Topic: "t", Body: []byte("other"), Delay: 1},
	} {
		d := newListener(t, httplistener.Config{})
		list := messages(2, 1)
		_, err := d.client(t, client.Config{MaxBatch: 1}).PublishBatch(context.Background(), []client.Message{list[0], bad, list[1]})
		b, _ := errors.AsType[client.BatchError](err)
		if len(b) != 3 || b[0] != nil || b[1] == nil || b[2] != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestEmptyBatchAsksNothing(t *testing.T) {
	d, c := fixture(t)
	receipts, err := c.PublishBatch(context.Background(), nil)
	if len(receipts) != 0 || err != nil || len(d.asked()) != 0 {
		t.Errorf("got %v, %v, %v", receipts, err, d.asked())
	}
}

// TestProxyAllowsLess: a proxy refuses in its own words.
func TestProxyAllowsLess(t *testing.T) {
	d, c := fixture(t)
	d.first(1, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	if _, err := c.PublishBatch(context.Background(), messages(4, 1)); err != nil {
		t.Fatal(err)
	}
	d.parkedOnce(t, 4)
}

// TestConcurrentUse: one Client, many callers.
func TestConcurrentUse(t *testing.T) {
	d, c := fixture(t)
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for n := range 20 {
				body := []byte(fmt.Sprint(caller, n))
				receipts, err := c.PublishBatch(context.Background(), []client.Message{{Topic: "t", Body: body, Delay: time.Hour}})
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := c.Get(context.Background(), client.Ref{ID: receipts[0].ID}); err != nil || string(got.Body) != string(body) {
					t.Errorf("got %q, %v", got.Body, err)
				}
			}
		})
	}
	group.Wait()
	if len(d.store.parked) != 160 {
		t.Errorf("%d messages were parked", len(d.store.parked))
	}
}
