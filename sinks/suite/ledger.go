package suite

import (
	"bytes"
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// ledger is what was sent, and what the sink said of it. Safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	lines map[string]*line // by ID
}

// line is the story of one message.
type line struct {
	sent               []*core.Message // each attempt
	confirmed, unknown int
}

func (l *ledger) note(m *core.Message, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.lines[m.ID]
	if entry == nil {
		entry = &line{}
		l.lines[m.ID] = entry
	}
	entry.sent = append(entry.sent, clone(m))
	switch {
	case err == nil:
		entry.confirmed++
	case core.ClassOf(err) == core.Unknown:
		entry.unknown++
	}
}

// expected is how many messages of topic must have arrived at the least.
func (l *ledger) expected(topic string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, entry := range l.lines {
		if entry.sent[0].Topic == topic {
			n += entry.confirmed
		}
	}
	return n
}

// audit reads topic and holds what arrived against the ledger: each message as
// often as it was confirmed, more often only where that is unknown, and equal
// in every byte to what was sent. It returns what arrived.
func (e *env) audit(topic string) []Received {
	e.Helper()
	arrived := e.collect(topic, e.ledger.expected(topic))
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	copies := map[string]int{}
	for _, r := range arrived {
		id, ok := e.identify(r)
		if !ok {
			e.Errorf("arrived in %s but was never sent: %s", topic, show(r))
			continue
		}
		copies[id]++
		e.compare(e.ledger.lines[id], r)
	}
	for id, entry := range e.ledger.lines {
		if entry.sent[0].Topic == topic {
			e.count(id, entry, copies[id])
		}
	}
	return arrived
}

func (e *env) count(id string, entry *line, copies int) {
	e.Helper()
	switch least, most := entry.confirmed, entry.confirmed+entry.unknown; {
	case copies < least:
		e.Errorf("lost: %s was confirmed %d times and arrived %d times", id, least, copies)
	case copies > most && most == 0:
		e.Errorf("%s was reported as not sent, but arrived %d times", id, copies)
	case copies > most:
		e.Errorf("repeated: %s arrived %d times, but was confirmed %d times and unknown %d times", id, copies, least, entry.unknown)
	}
}

// identify finds the ID of what arrived: in its headers, or else by its body.
func (e *env) identify(r Received) (id string, ok bool) {
	if e.kit.can(Headers) {
		for _, h := range r.Headers {
			if h.Name == core.HeaderID {
				_, ok = e.ledger.lines[string(h.Value)]
				return string(h.Value), ok
			}
		}
		return "", false
	}
	for id, entry := range e.ledger.lines {
		if bytes.Equal(entry.sent[0].Body, r.Body) {
			return id, true
		}
	}
	return "", false
}

// compare checks that r is one of the attempts of entry, byte for byte.
func (e *env) compare(entry *line, r Received) {
	e.Helper()
	got := e.fold(r)
	for _, m := range entry.sent {
		if reflect.DeepEqual(e.view(m), got) {
			return
		}
	}
	last := e.view(entry.sent[len(entry.sent)-1])
	e.Errorf("arrived changed:\nsent:    %s\narrived: %s", show(last), show(got))
}

// view is what consumers are to see of m.
func (e *env) view(m *core.Message) Received {
	r := Received{Body: m.Body, Key: m.Key}
	for _, h := range m.DeliveredHeaders() {
		if !e.isDelay(h.Name) {
			r.Headers = append(r.Headers, h)
		}
	}
	return e.fold(r)
}

func (e *env) isDelay(name string) bool {
	return slices.ContainsFunc(e.kit.Delays, func(h core.Header) bool { return strings.EqualFold(h.Name, name) })
}

// fold takes the differences away that the target can't express.
func (e *env) fold(r Received) Received {
	f := Received{Body: notNil(r.Body, e.kit.can(NullBody))}
	if e.kit.can(Keys) {
		f.Key = notNil(r.Key, e.kit.can(NullKeys))
	}
	if !e.kit.can(Headers) {
		return f
	}
	for _, h := range r.Headers {
		f.Headers = append(f.Headers, core.Header{Name: h.Name, Value: notNil(h.Value, e.kit.can(NullHeaders))})
	}
	if !e.kit.can(HeaderOrder) {
		slices.SortStableFunc(f.Headers, func(a, b core.Header) int { return cmp.Compare(a.Name, b.Name) })
	}
	return f
}

func notNil(b []byte, keep bool) []byte {
	if b == nil && !keep {
		return []byte{}
	}
	return b
}

// collect reads topic until want messages are there, and whatever else comes
// soon after.
func (e *env) collect(topic string, want int) []Received {
	e.Helper()
	if e.kit.Consume == nil {
		e.lacks("reader")
	}
	next := e.kit.Consume(e.T, topic)
	var arrived []Received
	read := func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(e.Context(), limit)
		defer cancel()
		r, err := next(ctx)
		if err != nil && ctx.Err() == nil {
			e.Fatalf("read %s: %v", topic, err)
		}
		if err == nil {
			arrived = append(arrived, r)
		}
		return err == nil
	}
	for deadline := time.Now().Add(e.kit.ReadTimeout); len(arrived) < want; {
		if !read(time.Until(deadline)) {
			return arrived
		}
	}
	for read(e.kit.Quiet) {
	}
	return arrived
}
