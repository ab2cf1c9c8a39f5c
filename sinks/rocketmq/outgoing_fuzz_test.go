package rocketmq

import (
	"encoding/binary"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzOutgoing: a message that passes the checks at accept is, as brokers read
// it, one message with its body and exactly the properties that it is to have:
// no header makes a property of its own, hides one, or has the broker delay.
func FuzzOutgoing(f *testing.F) {
	f.Add("id", "key", []byte("body"), "name", []byte("value"), "again", []byte("2"), "tags", "a")
	f.Add("id", "", []byte{}, "DELAY", []byte("3"), "TIMER_DELIVER_MS", []byte("x\x01y\x02z"), "keys", "k1 k2")
	f.Add("a:b", "\x01", []byte(nil), "a", []byte("b\x02DELAY\x013"), "b\x01", []byte("v"), "sharding_key", "s")
	f.Add("id", "\xff", []byte("\x00"), "__RMQ.x", []byte("v"), "KEYS", []byte("v"), "tags", "a||b")
	f.Add("id", "k", []byte("b"), "TIMER_DELAY_SEC", []byte("5"), "__STARTDELIVERTIME", []byte("6"), "retry.max", "1s")
	f.Add("id", "k", []byte("b"), "a", []byte("1"), "a", []byte("2"), "retry.max", "1s")
	f.Add("id", "k", []byte("b"), "UNIQ_KEY", []byte("1"), "delay", []byte("2"), "tags", "*")
	s := decoded(f)
	f.Fuzz(func(t *testing.T, id, key string, body []byte, name string, value []byte, again string, more []byte, option, setting string) {
		m := &core.Message{ID: id, Sink: "rocketmq", Topic: "t", Key: []byte(key), Body: body, Attempt: 1, DeliverAt: time.UnixMilli(1_700_000_000_000),
			Headers: []core.Header{{Name: name, Value: value}, {Name: again, Value: more}}, Options: map[string]string{option: setting}}
		if (core.Limits{}).Check(m, m.DeliverAt) != nil {
			return
		}
		o, err := s.prepare(0, m)
		if err != nil {
			return
		}
		gotBody, got := readBatch(t, onWire([]*outgoing{o}))
		if gotBody != string(body) {
			t.Errorf("body %q became %q", body, gotBody)
		}
		if diff := cmp.Diff(wanted(m), got); diff != "" {
			t.Errorf("properties (-wanted +got):\n%s", diff)
		}
	})
}

// wanted is what the package promises of m's properties, in words of its own.
func wanted(m *core.Message) map[string]string {
	properties := map[string]string{"KEYS": strings.TrimSuffix(m.ID+" "+m.Options["keys"], " ")}
	if extra := m.Options["keys"]; extra != "" {
		properties["KEYS"] = m.ID + " " + extra
	}
	for _, h := range m.DeliveredHeaders() {
		properties[h.Name] = string(h.Value)
	}
	maps.DeleteFunc(properties, func(name, _ string) bool {
		return name == "DELAY" || name == "__STARTDELIVERTIME" || strings.HasPrefix(name, "TIMER_")
	})
	if tags, ok := m.Options["tags"]; ok {
		properties["TAGS"] = tags
	}
	key := m.Options["sharding_key"]
	if key == "" && isText(string(m.Key)) {
		key = string(m.Key)
	}
	if key != "" {
		properties["__SHARDINGKEY"], properties["SHARDING_KEY"] = key, key
	}
	return properties
}

// readBatch reads a batch of one message as brokers do: properties end with
// 0x02, and the first 0x01 ends the name; what has no name or value is dropped.
func readBatch(t *testing.T, batch []byte) (body string, properties map[string]string) {
	t.Helper()
	const head = 16 // length, magic, checksum, flags
	if size := binary.BigEndian.Uint32(batch); int(size) != len(batch) {
		t.Fatalf("the batch has %d bytes, and its first message says %d", len(batch), size)
	}
	rest := batch[head:]
	size := binary.BigEndian.Uint32(rest)
	body, rest = string(rest[4:4+size]), rest[4+size:]
	if size := binary.BigEndian.Uint16(rest); int(size) != len(rest)-2 || size > 1<<15-1 {
		t.Fatalf("%d bytes of properties, said to be %d", len(rest)-2, size)
	}
	properties = make(map[string]string)
	for part := range strings.SplitSeq(string(rest[2:]), "\x02") {
		name, value, _ := strings.Cut(part, "\x01")
		if name == "" || value == "" {
			continue
		}
		if _, twice := properties[name]; twice {
			t.Errorf("property %q appears twice", name)
		}
		properties[name] = value
	}
	return body, properties
}
