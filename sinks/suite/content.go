package suite

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

func oneMessage(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.message(topic, string(allBytes()))
	m.Key = []byte("customer-7")
	m.Headers = []core.Header{{Name: "content-type", Value: []byte("text/plain")}, {Name: "trace", Value: []byte("a b;c=\"d\"")}}
	e.mustDeliver(sink, m)
	e.audit(topic)
}

// allBytes is each byte value once, and some noise.
func allBytes() []byte {
	data := make([]byte, 1024)
	for i := range data {
		if data[i] = byte(i); i > 0xff {
			data[i] = byte(rand.Uint32())
		}
	}
	return data
}

func emptyBody(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.message(topic, "")
	m.Body = []byte{}
	e.needs(EmptyBody, sink, m)
	e.mustDeliver(sink, m)
	e.audit(topic)
}

// nilBody sends a nil and an empty body together: where the target knows a null
// body they must differ; where it does not, Check may refuse the nil one, or it
// arrives as an empty one.
func nilBody(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	null, empty := e.message(topic, ""), e.message(topic, "")
	null.Body, empty.Body = nil, []byte{}
	if !e.kit.can(NullBody) {
		if checker, ok := core.Ability[core.Checker](sink); ok && e.check(checker, null) != nil {
			e.lacks(string(NullBody))
		}
		e.needs(EmptyBody, sink, null)
	}
	if !e.kit.can(EmptyBody) {
		e.mustDeliver(sink, null)
	} else {
		e.mustDeliver(sink, null, empty)
	}
	e.audit(topic)
}

func (e *env) bodyOf(topic string, size int) *core.Message {
	m := e.message(topic, "")
	m.Body = bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
	copy(m.Body, m.ID)
	return m
}

func largestBody(e *env) {
	if e.kit.MaxBody == 0 {
		e.lacks("max body")
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.bodyOf(topic, e.kit.MaxBody)
	if checker, ok := core.Ability[core.Checker](sink); ok {
		if err := e.check(checker, m); err != nil {
			e.Errorf("Check refuses a body of MaxBody: %v", err)
		}
	}
	e.mustDeliver(sink, m)
	e.audit(topic)
}

// tooLargeBody sends a body that is one byte too large: refused at accept, and,
// where it was accepted before limits changed, refused permanently.
func tooLargeBody(e *env) {
	if e.kit.MaxBody == 0 {
		e.lacks("max body")
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	large := e.bodyOf(topic, e.kit.MaxBody+1)
	if checker, ok := core.Ability[core.Checker](sink); ok {
		invalid, ok := errors.AsType[*core.InvalidError](e.check(checker, large))
		if !ok || !invalid.TooLarge {
			e.Errorf("Check of a body of MaxBody+1: %v, want an InvalidError with TooLarge", invalid)
		}
	}
	batch := []*core.Message{e.message(topic, "before"), large, e.message(topic, "after")}
	e.oneSpoils(sink, batch, 1, core.Permanent)
	e.audit(topic)
}

// oneSpoils delivers a batch of which only the message at bad must fail.
func (e *env) oneSpoils(sink core.Sink, batch []*core.Message, bad int, class core.Class) {
	e.Helper()
	for i, err := range e.deliverWithin(e.ample, sink, batch...) {
		switch {
		case i == bad:
			e.wantClass(err, class)
		case err != nil:
			e.Errorf("message %d, a neighbour of the one that can't be sent: %v", i, err)
		}
	}
}

func binaryHeaders(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.message(topic, "binary")
	m.Headers = []core.Header{{Name: "all", Value: allBytes()}, {Name: "empty", Value: []byte{}}, {Name: "null", Value: nil}}
	e.needsHeaders(BinaryHeaders, sink, m)
	e.mustDeliver(sink, m)
	e.audit(topic)
}

func repeatedHeaders(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.message(topic, "repeats")
	m.Headers = []core.Header{{Name: "via", Value: []byte("1")}, {Name: "other", Value: []byte("x")},
		{Name: "via", Value: []byte("2")}, {Name: "via", Value: []byte("1")}}
	e.needsHeaders(RepeatedHeaders, sink, m)
	e.mustDeliver(sink, m)
	e.audit(topic)
}

// needsHeaders is needs for what is pointless where headers do not arrive.
func (e *env) needsHeaders(c Capability, sink core.Sink, m *core.Message) {
	e.Helper()
	if !e.kit.can(Headers) {
		e.lacks(string(Headers))
	}
	e.needs(c, sink, m)
}

func retryKeepsID(e *env) {
	if !e.kit.can(Headers) {
		e.lacks(string(Headers))
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	first := e.message(topic, "tried twice")
	e.mustDeliver(sink, first)
	e.mustDeliver(sink, again(first))
	attempts := map[string]int{}
	for _, r := range e.audit(topic) {
		for _, h := range r.Headers {
			if h.Name == core.HeaderAttempt {
				attempts[string(h.Value)]++
			}
		}
	}
	// How often each may arrive, the ledger knows.
	if attempts["1"] == 0 || attempts["2"] == 0 || len(attempts) != 2 {
		e.Errorf("attempts in the headers: %v, want 1 and 2", attempts)
	}
}

func delaysStripped(e *env) {
	if len(e.kit.Delays) == 0 {
		e.lacks("delays")
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	m := e.message(topic, "at once")
	m.Headers = append(m.Headers, e.kit.Delays...)
	m.Headers = append(m.Headers, core.Header{Name: "kept", Value: []byte("1")})
	e.mustDeliver(sink, m)
	e.audit(topic)
}

func optionsChecked(e *env) {
	sink := e.open()
	checker, ok := core.Ability[core.Checker](sink)
	if !ok {
		e.lacks("checker")
	}
	m := e.message(e.kit.NewTopic(e.T), "")
	m.Options = map[string]string{"retry.max_attempts": "3"}
	if err := e.check(checker, m); err != nil {
		e.Errorf("Check refuses an option of the engine: %v", err)
	}
	m.Options = map[string]string{"no_such_option": "1"}
	if _, ok := errors.AsType[*core.InvalidError](e.check(checker, m)); !ok {
		e.Errorf("Check of an unknown option: %v, want an InvalidError", e.check(checker, m))
	}
}

const (
	checkedBatch = 500
	checkedEvery = 100 // so many have an option that no sink knows
)

// batchChecked has a whole batch checked, as a producer sends it: in one call, each
// message by itself, and not for longer than the producer waits.
func batchChecked(e *env) {
	sink := e.open()
	checker, ok := core.Ability[core.Checker](sink)
	if !ok {
		e.lacks("checker")
	}
	batch := e.messages(e.kit.NewTopic(e.T), checkedBatch)
	for n := 0; n < len(batch); n += checkedEvery {
		batch[n].Options = map[string]string{"no_such_option": "1"}
	}
	ctx, cancel := context.WithTimeout(e.Context(), e.soon)
	defer cancel()
	var err error
	if !e.bounded("Check of a batch", 2*e.soon, func() { err = checker.Check(ctx, batch) }) {
		return
	}
	results, ok := errors.AsType[core.BatchError](err)
	if !ok || len(results) != len(batch) {
		e.Errorf("Check of %d messages, some with an unknown option: %v, want a BatchError with one result for each", len(batch), err)
		return
	}
	for n, err := range results {
		if _, refused := errors.AsType[*core.InvalidError](err); refused != (n%checkedEvery == 0) {
			e.Errorf("Check of a batch: message %d is refused: %v, want it to be: %v", n, err, n%checkedEvery == 0)
			return
		}
	}
	cancel()
	e.bounded("Check, after its context had ended,", e.soon, func() { _ = checker.Check(ctx, batch) })
}

// hostileMessages puts each message that might hurt others between two that are
// harmless. It must arrive as it is, or be refused permanently, at accept already
// where the sink checks; its neighbours must arrive.
func hostileMessages(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	topics := map[string]bool{topic: true}
	for _, m := range append(e.hostile(topic), e.kit.Hostile...) {
		m = e.complete(m, topic)
		confirmed := e.hostileOne(sink, topic, m)
		topics[m.Topic] = topics[m.Topic] || confirmed
	}
	for name, readable := range topics {
		if readable {
			e.audit(name)
		}
	}
}

// hostileOne reports whether the message was confirmed.
func (e *env) hostileOne(sink core.Sink, topic string, m *core.Message) bool {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.ample)
	defer cancel()
	batch := []*core.Message{e.message(topic, "before"), m, e.message(topic, "after")}
	results := e.deliver(ctx, sink, batch...)
	for _, i := range []int{0, 2} {
		if results[i] != nil {
			e.Errorf("%s: its neighbour fails: %v", describe(m), results[i])
		}
	}
	checker, ok := core.Ability[core.Checker](sink)
	accepted := !ok || e.check(checker, m) == nil
	switch class := core.ClassOf(results[1]); {
	case results[1] == nil, class == core.TopicBlocked && m.Topic != topic:
	case class != core.Permanent:
		e.Errorf("%s: class %s, which would be retried forever: %v", describe(m), class, results[1])
	case accepted && ok:
		e.Errorf("%s: passes Check but can't be delivered: %v", describe(m), results[1])
	}
	return results[1] == nil
}

// complete gives a message that an author wrote what the suite needs.
func (e *env) complete(m *core.Message, topic string) *core.Message {
	whole := e.message(topic, "hostile")
	whole.Headers, whole.Key, whole.Options = m.Headers, m.Key, m.Options
	if m.Topic != "" {
		whole.Topic = m.Topic
	}
	if m.Body != nil {
		whole.Body = m.Body
	}
	return whole
}

func describe(m *core.Message) string {
	switch {
	case len(m.Headers) > 0:
		return "message with the header " + strings.ToValidUTF8(core.Shorten(m.Headers[0].Name, 40), "?")
	case len(m.Key) > 0:
		return "message with a large key"
	}
	return "message to " + core.Shorten(m.Topic, 40)
}

// hostile are messages that the engine accepts and that brokers or their
// clients are known to choke on.
func (e *env) hostile(topic string) []*core.Message {
	header := func(name, value string) *core.Message {
		return &core.Message{Headers: []core.Header{{Name: name, Value: []byte(value)}}}
	}
	many := &core.Message{}
	for i := range 61 { // with delaybridge's own: 64
		many.Headers = append(many.Headers, core.Header{Name: "h" + strings.Repeat("x", i), Value: []byte("v")})
	}
	return []*core.Message{
		header("line-break", "a\r\nb: c"), header("zero", "a\x00b"), header("separators", "a\x01b\x02c"),
		header("not-utf8", "\xff\xfe"), header(strings.Repeat("n", 255), "long name"), header("large", strings.Repeat("v", 8000)),
		header("with space", "v"), header("colon:equals=", "v"), header("größe", "v"), header("__proto__", "v"),
		{Headers: []core.Header{{Name: "Case", Value: []byte("1")}, {Name: "case", Value: []byte("2")}}}, many,
		{Key: bytes.Repeat([]byte{0, 0xff}, core.MaxKeyLen/2)},
		{Topic: strings.Repeat("t", core.MaxTopicLen)}, {Topic: "../" + topic}, {Topic: topic + ":" + topic},
		{Topic: "%" + topic + "$*#"}, {Topic: "amq." + topic}, {Topic: "__" + topic},
	}
}
