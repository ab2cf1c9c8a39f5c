package kafka

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/core"
)

func TestCheck(t *testing.T) {
	sink := openTest(t, []string{"a:1"}, map[string]any{"max_message_bytes": 10_000}, nil)
	defer sink.Close()
	topic := func(name string) *core.Message { return &core.Message{Topic: name} }
	option := func(name, value string) *core.Message {
		return &core.Message{Topic: "t", Options: map[string]string{name: value}}
	}
	for _, test := range []struct {
		name  string
		m     *core.Message
		field string // empty: it passes
	}{
		{"plain", topic("Orders_2.eu-west"), ""},
		{"longest topic", topic(strings.Repeat("t", 249)), ""},
		{"longer topic", topic(strings.Repeat("t", 250)), "topic"},
		{"no topic", topic(""), "topic"},
		{"dot", topic("."), "topic"},
		{"dots", topic(".."), "topic"},
		{"slash", topic("a/b"), "topic"},
		{"inner slash", topic("a..b/../c"), "topic"},
		{"space inside", topic("a b"), "topic"},
		{"Kafka's own", topic("__consumer_offsets"), "topic"},
		{"underscore", topic("_schemas"), ""},
		{"partition", option("partition", "12"), ""},
		{"negative partition", option("partition", "-1"), "options.partition"},
		{"signed partition", option("partition", "+1"), "options.partition"},
		{"empty partition", option("partition", ""), "options.partition"},
		{"huge partition", option("partition", "2147483648"), "options.partition"},
		{"engine's option", option("retry.max", "1s"), ""},
		{"other option", option("routing_key", "x"), "options.routing_key"},
		{"large body", &core.Message{Topic: "t", Body: make([]byte, 9_000)}, ""},
		{"too large", &core.Message{Topic: "t", Body: make([]byte, 10_000)}, "body"},
		{"too large with key", &core.Message{Topic: "t", Body: make([]byte, 9_000), Key: make([]byte, 1_000)}, "body"},
		{"too large with headers", &core.Message{Topic: "t", Body: make([]byte, 9_000), Headers: []core.Header{{Name: "h", Value: make([]byte, 1_000)}}}, "body"},
	} {
		err := sink.check(test.m)
		invalid, ok := errors.AsType[*core.InvalidError](err)
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.field != "" && (!ok || invalid.Field != test.field || invalid.TooLarge != (test.field == "body")):
			t.Errorf("%s: got %v, want an error of %s", test.name, err, test.field)
		}
	}
}

// TestSizeIsABound compares our bounds with what the encoder makes of a message.
func TestSizeIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := func(most int) []byte { return make([]byte, rapid.IntRange(0, most).Draw(t, "length")) }
		m := &core.Message{ID: strings.Repeat("i", rapid.IntRange(1, core.MaxIDLen).Draw(t, "id")), Topic: "t",
			Key: data(core.MaxKeyLen), Body: data(300_000), Attempt: rapid.IntRange(1, 10_000).Draw(t, "attempt"),
			DeliverAt: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "deliver at"))}
		for range rapid.IntRange(0, 64).Draw(t, "headers") {
			m.Headers = append(m.Headers, core.Header{Name: strings.Repeat("n", rapid.IntRange(1, 255).Draw(t, "name")), Value: data(8_000)})
		}
		d := newDelivery([]*core.Message{m})
		set := protocol.RecordSet{Version: 2, Records: &recordReader{chunks: []*chunk{{delivery: d, places: []int{0}}}}}
		var out bytes.Buffer
		if _, err := set.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		size := out.Len() - 4 // the length before it
		if bound := batchHeadBytes + d.records[0].size; size > bound || bound > acceptedSize(m) {
			t.Errorf("encoded %d, bound %d, bound at accept %d: want each to be at most the next", size, bound, acceptedSize(m))
		}
	})
}

func TestRecordReaderEnds(t *testing.T) {
	d := newDelivery(messages("t", "a", "b"))
	r := &recordReader{chunks: []*chunk{{delivery: d, places: []int{1}}, {delivery: d, places: []int{0}}}}
	for _, want := range []string{"b", "a"} {
		record, err := r.ReadRecord()
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := protocol.ReadAll(record.Value); string(body) != want || record.Key != nil {
			t.Errorf("body %q, key %v, want %q and no key", body, record.Key, want)
		}
	}
	if _, err := r.ReadRecord(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}
