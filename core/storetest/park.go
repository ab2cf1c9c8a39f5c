package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func parkRules() []rule {
	return []rule{
		{"a receipt for each message", receiptForEach},
		{"a time to come is kept, a past one becomes now, a delay counts from now", timesAreResolved},
		{"expires_at and ttl", expiryIsKept},
		{"ids are generated", idsAreGenerated},
		{"content comes back byte for byte", contentComesBack},
		{"the caller's memory is not kept", callersMemory},
		{"the same again is a duplicate", sameAgain},
		{"other content under the same id conflicts", otherContent},
		{"times in the options are no content", otherTimes},
		{"headers of tracing are no content", otherTraces},
		{"the same id twice in one call", twiceInOneCall},
		{"the same id in two sinks is two messages", twoSinks},
	}
}

func receiptForEach(t *suite) {
	store, due := t.open(3), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	messages := make([]*core.Message, 50)
	for n := range messages {
		messages[n] = message(fmt.Sprintf("m%02d", n), at(due.Add(time.Duration(n)*time.Second)))
	}
	for n, r := range park(t, store, messages...) {
		want := core.Receipt{ID: messages[n].ID, Sink: Sink, State: core.Scheduled, DeliverAt: messages[n].DeliverAt}
		if r.Durability == "" {
			t.Errorf("receipt of %q names no durability", r.ID)
		}
		if r.Durability = ""; r.ID != want.ID || r.Sink != want.Sink || r.State != want.State || !r.DeliverAt.Equal(want.DeliverAt) || r.Attempt != 0 {
			t.Errorf("receipt %d is %+v, want %+v", n, r, want)
		}
	}
}

func timesAreResolved(t *suite) {
	now := time.Now()
	future := now.Add(48 * time.Hour).Truncate(time.Millisecond)
	tests := []struct {
		name string
		edit func(*core.Message)
		want time.Time
		near bool // within a minute
	}{
		{"future", at(future), future, false},
		{"past", at(now.Add(-time.Hour)), now, true},
		{"at-once", after(0), now, true},
		{"delay", after(time.Hour), now.Add(time.Hour), true},
	}
	store := t.open(1)
	for _, test := range tests {
		r := park(t, store, message(test.name, test.edit))[0]
		if off := r.DeliverAt.Sub(test.want).Abs(); off > time.Minute || off > 0 && !test.near {
			t.Errorf("%s: deliver_at is %s, want %s", test.name, r.DeliverAt, test.want)
		}
		if r.DeliverAt.Nanosecond()%int(time.Millisecond) != 0 {
			t.Errorf("%s: deliver_at %s is not in whole milliseconds", test.name, r.DeliverAt)
		}
		entry := get(t, store, ref(test.name))
		if !entry.Message.DeliverAt.Equal(r.DeliverAt) || !entry.Due.Equal(r.DeliverAt) {
			t.Errorf("%s: get says deliver_at %s and due %s, the receipt %s", test.name, entry.Message.DeliverAt, entry.Due, r.DeliverAt)
		}
	}
}

func expiryIsKept(t *suite) {
	store, now := t.open(1), time.Now()
	expires := now.Add(2 * time.Hour).Truncate(time.Millisecond)
	park(t, store,
		message("never"),
		message("absolute", func(m *core.Message) { m.ExpiresAt = expires }),
		message("ttl", func(m *core.Message) { m.TTL = 2 * time.Hour }))
	if got := get(t, store, ref("absolute")).Message.ExpiresAt; !got.Equal(expires) {
		t.Errorf("expires_at is %s, want %s", got, expires)
	}
	o := own(t, store, Sink, 1)
	for _, m := range o.awaitAll(3).Messages {
		off := m.ExpiresAt.Sub(expires).Abs()
		if never := m.ID == "never"; never != m.ExpiresAt.IsZero() || !never && off > time.Minute {
			t.Errorf("%s: expires_at is %s", m.ID, m.ExpiresAt)
		}
	}
}

func idsAreGenerated(t *suite) {
	const n = 8
	store, seen := t.open(n), make(map[string]bool)
	for i := range 100 {
		id := park(t, store, message("", later()))[0].ID
		if bucket, ok := core.BucketOfID(id); !ok || bucket >= n || seen[id] {
			t.Fatalf("id %q: bucket %d of %d, generated form %t, repeated %t", id, bucket, n, ok, seen[id])
		}
		seen[id] = true
		wantState(t, store, id, core.Scheduled)
		k := fmt.Sprintf("key %d", i)
		keyed := park(t, store, message("", later(), key(k)))[0].ID
		if bucket, _ := core.BucketOfID(keyed); bucket != core.BucketOf([]byte(k), "", n) {
			t.Fatalf("id %q carries bucket %d, its key belongs to another", keyed, bucket)
		}
	}
}

// awkward are messages whose bytes a careless store would change.
func awkward() []*core.Message {
	every := make([]byte, 256)
	for n := range every {
		every[n] = byte(n)
	}
	header := func(name string, value []byte) core.Header { return core.Header{Name: name, Value: value} }
	return []*core.Message{
		message("plain"),
		message("null-body", body(nil)),
		message("empty-body", body([]byte{})),
		message("binary-body", body(every)),
		message("large-body", body(bytes.Repeat(every, 1024))),
		message("no-key"),
		message("empty-key", key("")),
		message("binary-key", key(string(every))),
		message("a:b@c/d+e=f~g.h_i-J", key("{x}:\r\n*1")),
		message("headers", func(m *core.Message) {
			m.Headers = []core.Header{header("b", []byte("1")), header("a", nil), header("b", []byte{}), header("B", every), header("ä ö", []byte("0"))}
		}),
		message("options", func(m *core.Message) {
			m.Options = map[string]string{"b": "", "a": "1\x00\xff", "retry.initial": "3s"}
		}),
		message("urgent", priority(core.MaxPriority), topic("to:pic/{}")),
		message("dated", func(m *core.Message) { m.ExpiresAt = time.Now().Add(300 * 24 * time.Hour).Truncate(time.Millisecond) }),
	}
}

func contentComesBack(t *suite) {
	store, want := t.open(1), make(map[string]*core.Message)
	for _, m := range awkward() {
		want[m.ID] = clone(m)
		park(t, store, m)
		wantContent(t, get(t, store, core.Ref{ID: m.ID, Sink: m.Sink, Key: m.Key}).Message, want[m.ID])
	}
	o := own(t, store, Sink, 1)
	for len(want) > 0 {
		var done []core.Outcome
		for _, m := range o.await(4).Messages {
			wantContent(t, m, want[m.ID])
			if m.Attempt != 1 || m.CutOff || !m.ExpiresAt.Equal(want[m.ID].ExpiresAt) {
				t.Errorf("%s: attempt %d, cut off %t, expires at %s", m.ID, m.Attempt, m.CutOff, m.ExpiresAt)
			}
			delete(want, m.ID)
			done = append(done, delivered(m.ID))
		}
		o.settle(done...)
	}
}

func callersMemory(t *suite) {
	m := message("m", key("key"))
	m.Headers = []core.Header{{Name: "h", Value: []byte("value")}}
	m.Options = map[string]string{"o": "1"}
	store, want := t.open(1), clone(m)
	want.Options = map[string]string{"o": "1"}
	park(t, store, m)
	m.Key[0], m.Body[0], m.Headers[0].Value[0] = 'X', 'X', 'X'
	m.Headers[0].Name, m.Options["o"], m.Topic = "X", "X", "X"
	wantContent(t, get(t, store, ref("m")).Message, want)
}

func sameAgain(t *suite) {
	store := t.open(1)
	first := make(map[string]core.Receipt)
	for _, m := range awkward() {
		m.Delay = time.Hour
		first[m.ID] = park(t, store, clone(m))[0]
	}
	for _, m := range awkward() {
		m.Delay = 2 * time.Hour // times are no content
		again := parkAgain(t, store, m)
		if again.Err != nil || !again.Duplicate || again.State != core.Scheduled || !again.DeliverAt.Equal(first[m.ID].DeliverAt) {
			t.Errorf("%s again: %+v, want a duplicate of %+v", m.ID, again, first[m.ID])
		}
	}
}

func otherContent(t *suite) {
	base := func() *core.Message {
		m := message("m", later(), body([]byte{}))
		m.Headers = []core.Header{{Name: "a", Value: []byte{}}, {Name: "b", Value: []byte("1")}}
		m.Options = map[string]string{"o": "1"}
		return m
	}
	tests := map[string]func(*core.Message){
		"topic":             topic("other"),
		"body":              body([]byte("other")),
		"null body":         body(nil),
		"key":               key("other"),
		"empty key":         key(""),
		"priority":          priority(1),
		"header value":      func(m *core.Message) { m.Headers[1].Value = []byte("2") },
		"header name":       func(m *core.Message) { m.Headers[1].Name = "c" },
		"header order":      func(m *core.Message) { m.Headers[0], m.Headers[1] = m.Headers[1], m.Headers[0] },
		"null header value": func(m *core.Message) { m.Headers[0].Value = nil },
		"fewer headers":     func(m *core.Message) { m.Headers = m.Headers[:1] },
		"no headers":        func(m *core.Message) { m.Headers = nil },
		"option value":      func(m *core.Message) { m.Options["o"] = "2" },
		"more options":      func(m *core.Message) { m.Options["p"] = "1" },
		"no options":        func(m *core.Message) { m.Options = nil },
	}
	store := t.open(1)
	park(t, store, base())
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			m := base()
			edit(m)
			r := parkAgain(t, store, m)
			if !errors.Is(r.Err, core.ErrConflict) || r.ID != "m" || r.Sink != Sink || r.Duplicate {
				t.Errorf("receipt %+v, want %v", r, core.ErrConflict)
			}
			wantContent(t, get(t, store, ref("m")).Message, base())
		})
	}
}

// otherTimes: a consumer that was given one message twice publishes both copies again,
// each with a delay of its own, and a client sets the time of each send.
func otherTimes(t *suite) {
	store := t.open(1)
	first := message("m", later(), body([]byte("b")))
	first.Options = map[string]string{"o": "1", core.OptionXDelay: "-1000", core.OptionTimestamp: "1700000000"}
	park(t, store, first)
	long := strings.Repeat("0", 1024)
	for name, options := range map[string]map[string]string{
		"other delay": {"o": "1", core.OptionXDelay: "-999", core.OptionTimestamp: "1700000000"},
		"other times": {"o": "1", core.OptionXDelay: long, core.OptionTimestamp: long},
		"no times":    {"o": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := message("m", later(), body([]byte("b")))
			m.Options = options
			if r := parkAgain(t, store, m); r.Err != nil || !r.Duplicate || r.State != core.Scheduled {
				t.Errorf("receipt %+v, want a duplicate", r)
			}
			wantContent(t, get(t, store, ref("m")).Message, first)
			m.Options = maps.Clone(options)
			m.Options["o"] = "2"
			if r := parkAgain(t, store, m); !errors.Is(r.Err, core.ErrConflict) || r.Duplicate {
				t.Errorf("receipt %+v with another option, want %v", r, core.ErrConflict)
			}
		})
	}
}

// otherTraces: a producer that sends a message again does so in another span.
func otherTraces(t *suite) {
	store := t.open(1)
	headers := func(more ...core.Header) []core.Header {
		return append([]core.Header{{Name: "a", Value: []byte("1")}}, more...)
	}
	first := message("m", later(), body([]byte("b")))
	first.Headers = headers(core.Header{Name: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")})
	park(t, store, first)
	for name, more := range map[string][]core.Header{
		"another": {{Name: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01")}},
		"all":     {{Name: "Traceparent"}, {Name: "tracestate", Value: []byte("a=b")}, {Name: "baggage", Value: bytes.Repeat([]byte("b"), 8192)}},
		"none":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := message("m", later(), body([]byte("b")))
			m.Headers = headers(more...)
			if r := parkAgain(t, store, m); r.Err != nil || !r.Duplicate || r.State != core.Scheduled {
				t.Errorf("receipt %+v, want a duplicate", r)
			}
			wantContent(t, get(t, store, ref("m")).Message, first)
			m.Headers = append(headers(more...), core.Header{Name: "traceparents"})
			if r := parkAgain(t, store, m); !errors.Is(r.Err, core.ErrConflict) || r.Duplicate {
				t.Errorf("receipt %+v with another header, want %v", r, core.ErrConflict)
			}
		})
	}
}

func twiceInOneCall(t *suite) {
	store := t.open(3)
	receipts := store.Park(patient(t), message("a", later()), message("b", later()), message("a", later()),
		message("b", later(), topic("other")), message("c", later()))
	duplicates, conflicts := 0, 0
	for n, r := range receipts {
		switch {
		case r.Duplicate && n == 2:
			duplicates++
		case errors.Is(r.Err, core.ErrConflict) && n == 3:
			conflicts++
		case r.Err != nil || r.Duplicate:
			t.Errorf("receipt %d is %+v", n, r)
		}
	}
	if duplicates != 1 || conflicts != 1 {
		t.Errorf("receipts %+v, want the third a duplicate and the fourth a conflict", receipts)
	}
}

func twoSinks(t *suite) {
	store := t.open(1)
	park(t, store, message("m", later()), message("m", later(), sink(OtherSink), topic("other")))
	if _, err := store.Cancel(patient(t), core.Ref{ID: "m", Sink: OtherSink}); err != nil {
		t.Fatalf("cancel in the other sink: %v", err)
	}
	wantState(t, store, "m", core.Scheduled)
}
