package kafka

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzRecord: a message that passes the checks at accept is in a record batch
// what it was before, with nothing missing and nothing more. nils says which of
// key, body and header values are null.
func FuzzRecord(f *testing.F) {
	f.Add("id", []byte("key"), []byte("body"), "name", []byte("value"), "again", []byte{0, 255}, uint8(0))
	f.Add("id", []byte{}, []byte{}, "same", []byte{}, "same", []byte("2"), uint8(0))
	f.Add("0123456789abcdefghijklm", []byte(nil), []byte(nil), "null", []byte(nil), "\u202e", []byte("\r\nx: y"), uint8(15))
	f.Add("a/b:c", bytes.Repeat([]byte("k"), 1024), bytes.Repeat([]byte("b"), 20_000), "x-delay", []byte("5000"), "DELAY", []byte("3"), uint8(0))
	sink := openTest(f, []string{"a:1"}, nil, nil)
	f.Cleanup(func() { sink.Close() })
	f.Fuzz(func(t *testing.T, id string, key, body []byte, name string, value []byte, again string, more []byte, nils uint8) {
		m := &core.Message{ID: id, Sink: "kafka", Topic: "t", Key: unless(nils&1, key), Body: unless(nils&2, body), Attempt: 1,
			DeliverAt: time.UnixMilli(1_700_000_000_000),
			Headers:   []core.Header{{Name: name, Value: unless(nils&4, value)}, {Name: again, Value: unless(nils&8, more)}}}
		if (core.Limits{}).Check(m, m.DeliverAt) != nil || sink.check(m) != nil {
			return
		}
		if diff := cmp.Diff([]string{shown(m.Key, m.Body, m.DeliveredHeaders())}, encoded(t, m)); diff != "" {
			t.Errorf("-accepted +arrived:\n%s", diff)
		}
	})
}

func unless(null uint8, b []byte) []byte {
	if null != 0 {
		return nil
	}
	return append([]byte{}, b...)
}

// encoded are the records that m becomes.
func encoded(t *testing.T, m *core.Message) (records []string) {
	t.Helper()
	d := newDelivery([]*core.Message{m})
	set := protocol.RecordSet{Version: 2, Records: &recordReader{chunks: []*chunk{{delivery: d, places: []int{0}}}}}
	var wire bytes.Buffer
	if _, err := set.WriteTo(&wire); err != nil {
		t.Fatal(err)
	}
	var back protocol.RecordSet
	if _, err := back.ReadFrom(&wire); err != nil {
		t.Fatal(err)
	}
	for {
		r, err := back.Records.ReadRecord()
		if err != nil {
			return records
		}
		key, _ := protocol.ReadAll(r.Key)
		body, _ := protocol.ReadAll(r.Value)
		var headers []core.Header
		for _, h := range r.Headers {
			headers = append(headers, core.Header{Name: h.Key, Value: h.Value})
		}
		records = append(records, shown(key, body, headers))
	}
}

// shown tells null from empty.
func shown(key, body []byte, headers []core.Header) string {
	text := fmt.Sprintf("%#v %#v", key, body)
	for _, h := range headers {
		text += fmt.Sprintf(" %q=%#v", h.Name, h.Value)
	}
	return text
}
