package storetest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// message makes a message that is due at once.
func message(id string, edits ...func(*core.Message)) *core.Message {
	m := &core.Message{ID: id, Generated: id == "", Sink: Sink, Topic: "topic", Body: []byte("body of " + id)}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func at(due time.Time) func(*core.Message) {
	return func(m *core.Message) { m.DeliverAt = due }
}

func after(delay time.Duration) func(*core.Message) {
	return func(m *core.Message) { m.Delay = delay }
}

func key(k string) func(*core.Message) {
	return func(m *core.Message) { m.Key = []byte(k) }
}

func body(b []byte) func(*core.Message) {
	return func(m *core.Message) { m.Body = b }
}

func topic(name string) func(*core.Message) {
	return func(m *core.Message) { m.Topic = name }
}

func priority(p int) func(*core.Message) {
	return func(m *core.Message) { m.Priority = p }
}

func sink(name string) func(*core.Message) {
	return func(m *core.Message) { m.Sink = name }
}

// later makes a message due in an hour, which no test lives to see.
func later() func(*core.Message) { return after(time.Hour) }

// keyIn returns a key that belongs to the given bucket of n.
func keyIn(bucket, n int) string {
	for k := []byte("k"); ; k = append(k, 'k') {
		if core.BucketOf(k, "", n) == bucket {
			return string(k)
		}
	}
}

// park parks messages that must be accepted, and not as duplicates.
func park(t reporter, store core.Store, messages ...*core.Message) []core.Receipt {
	t.Helper()
	receipts := store.Park(context.Background(), messages...)
	if len(receipts) != len(messages) {
		t.Fatalf("park %d messages: %d receipts", len(messages), len(receipts))
	}
	for n, r := range receipts {
		if r.Err != nil || r.Duplicate {
			t.Fatalf("park %q: err %v, duplicate %t; want a new message", messages[n].ID, r.Err, r.Duplicate)
		}
	}
	return receipts
}

// parkAgain parks one message and returns whatever the store says.
func parkAgain(t reporter, store core.Store, m *core.Message) core.Receipt {
	t.Helper()
	receipts := store.Park(context.Background(), m)
	if len(receipts) != 1 {
		t.Fatalf("park one message: %d receipts", len(receipts))
	}
	return receipts[0]
}

func ref(id string) core.Ref { return core.Ref{ID: id, Sink: Sink} }

func refKey(id, key string) core.Ref { return core.Ref{ID: id, Sink: Sink, Key: []byte(key)} }

// get returns the entry of a message that must be there.
func get(t reporter, store core.Store, ref core.Ref) core.Entry {
	t.Helper()
	entry, err := store.Get(context.Background(), ref)
	if err != nil {
		t.Fatalf("get %q: %v", ref.ID, err)
	}
	if entry.Message == nil {
		t.Fatalf("get %q: entry without a message", ref.ID)
	}
	return entry
}

func wantState(t reporter, store core.Store, id string, want core.State) {
	t.Helper()
	if got := get(t, store, ref(id)).State; got != want {
		t.Errorf("state of %q is %q, want %q", id, got, want)
	}
}

func wantNotFound(t reporter, store core.Store, id string) {
	t.Helper()
	if entry, err := store.Get(context.Background(), ref(id)); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("get %q: state %q, err %v; want %v", id, entry.State, err, core.ErrNotFound)
	}
}

// content is what two messages with one ID are compared by, and what a message
// keeps from Park to Take.
type content struct {
	ID, Sink, Topic string
	Key, Body       []byte
	Headers         []core.Header
	Options         map[string]string
	Priority        int
}

// contentOf tells nil from empty for bytes, but not for lists.
func contentOf(m *core.Message) content {
	c := content{ID: m.ID, Sink: m.Sink, Topic: m.Topic, Key: m.Key, Body: m.Body, Priority: m.Priority}
	if len(m.Headers) > 0 {
		c.Headers = m.Headers
	}
	if len(m.Options) > 0 {
		c.Options = m.Options
	}
	return c
}

func wantContent(t reporter, got, want *core.Message) {
	t.Helper()
	if a, b := contentOf(want), contentOf(got); !reflect.DeepEqual(a, b) {
		t.Errorf("content of %q (-want +got):\n%s", want.ID, cmp.Diff(a, b))
	}
}

// clone copies m deeply, as what is parked must not share its bytes.
func clone(m *core.Message) *core.Message {
	c := *m
	c.Key, c.Body = bytes.Clone(m.Key), bytes.Clone(m.Body)
	c.Headers = append([]core.Header(nil), m.Headers...)
	for n := range c.Headers {
		c.Headers[n].Value = bytes.Clone(c.Headers[n].Value)
	}
	return &c
}

func ids(messages []*core.Message) []string {
	list := make([]string, len(messages))
	for n, m := range messages {
		list[n] = m.ID
	}
	return list
}

func wantIDs(t reporter, got []*core.Message, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ids(got)); diff != "" {
		t.Fatalf("messages in order (-want +got):\n%s", diff)
	}
}
