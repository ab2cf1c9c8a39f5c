package amqpsource

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

func TestConfigIsChecked(t *testing.T) {
	long := strings.Repeat("x", 256)
	of := func(pairs ...any) map[string]any {
		m := make(map[string]any)
		for n := 0; n < len(pairs); n += 2 {
			m[pairs[n].(string)] = pairs[n+1]
		}
		return m
	}
	exchanges := func(all ...map[string]any) map[string]any { return of("queues", nil, "topic", nil, "exchanges", all) }
	tests := []struct {
		name  string
		more  map[string]any // nil takes a key out
		field string         // empty: accepted
	}{
		{"the least", nil, ""},
		{"unknown key", of("topics", []string{"a"}), "topics"},
		{"wrong type", of("queues", "a"), "queues"},
		{"wrong type inside", of("allow_loop", 1), "allow_loop"},
		{"no URL", of("urls", nil), "urls"},
		{"no broker's URL", of("urls", []string{"http://a/"}), "urls[0]"},
		{"URL with a query", of("urls", []string{"amqp://a/", "amqp://a/?heartbeat=5"}), "urls[1]"},
		{"no host", of("urls", []string{"amqp:///"}), "urls[0]"},
		{"TLS without use", of("tls", of()), "tls"},
		{"TLS", of("tls", of(), "urls", []string{"amqps://a/"}), ""},
		{"no authority", of("tls", of("ca", "/none"), "urls", []string{"amqps://a/"}), "tls.ca"},
		{"no source", of("queues", nil), "queues"},
		{"empty queue", of("queues", []string{""}), "queues[0]"},
		{"queue twice", of("queues", []string{"a", "b", "a"}), "queues[2]"},
		{"long queue", of("queues", []string{long}), "queues[0]"},
		{"no choice", of("on_bad_record", nil), "reject_queue"},
		{"two choices", of("reject_exchange", "r"), "on_bad_record"},
		{"no sink", of("sink", nil), "sink"},
		{"no such sink", of("sink", "none"), "sink"},
		{"no topic", of("topic", nil), "topic"},
		{"suffix", of("topic", "{topic}", "trim_suffix", ".delayed"), "trim_suffix"},
		{"suffix that fits", of("topic", "{topic}", "trim_suffix", ".delayed", "queues", []string{"a.delayed"}), ""},
		{"loop", of("topic", "in"), "topic"},
		{"loop that is meant", of("topic", "in", "allow_loop", true), ""},
		{"system queue", of("topic", "amq.gen-1"), "topic"},
		{"dialect", of("dialects", []string{"none"}), "dialects"},
		{"untagged", of("untagged", "guess"), "untagged"},
		{"exchange", exchanges(of("name", "a", "to", "b")), ""},
		{"exchanges and queues", of("exchanges", []any{of("name", "a", "to", "b")}), ""},
		{"exchanges and queues with a suffix", of("topic", "{topic}", "trim_suffix", "n", "exchanges", []any{of("name", "a", "to", "b")}), ""},
		{"topic of exchanges", of("queues", nil, "exchanges", []any{of("name", "a", "to", "b")}), "topic"},
		{"suffix of exchanges", of("queues", nil, "topic", nil, "trim_suffix", "x", "exchanges", []any{of("name", "a", "to", "b")}), "trim_suffix"},
		{"exchange without a name", exchanges(of("to", "b")), "exchanges[0].name"},
		{"exchange to none", exchanges(of("name", "a")), "exchanges[0].to"},
		{"exchange to itself", exchanges(of("name", "a", "to", "a")), "exchanges[0].to"},
		{"exchange to another", exchanges(of("name", "a", "to", "b"), of("name", "b", "to", "c")), "exchanges[0].to"},
		{"exchange to itself elsewhere", of("queues", nil, "topic", nil, "allow_loop", true, "exchanges", []any{of("name", "a", "to", "a")}), ""},
		{"exchange to the broker's own", exchanges(of("name", "a", "to", "amq.topic")), "exchanges[0].to"},
		{"exchange that is allowed", of("queues", nil, "topic", nil, "allow_topics", []string{"amq.topic"}, "exchanges", []any{of("name", "a", "to", "amq.topic")}), ""},
		{"direct exchange", exchanges(of("name", "a", "to", "b", "type", "direct")), "exchanges[0].type"},
		{"other type", exchanges(of("name", "a", "to", "b", "type", "x-delayed-message")), "exchanges[0].type"},
		{"exchange twice", exchanges(of("name", "a", "to", "b"), of("name", "a", "to", "c")), "exchanges[1].name"},
		{"queue of two", exchanges(of("name", "a", "to", "b", "queue", "q"), of("name", "c", "to", "b", "queue", "q")), "exchanges[1].queue"},
		{"queue of both", of("exchanges", []any{of("name", "a", "to", "b", "queue", "in")}), "exchanges[0].queue"},
		{"long exchange", exchanges(of("name", long, "to", "b")), "exchanges[0].name"},
		{"arguments", of("queue_arguments", of("x-queue-type", "quorum", "x-delivery-limit", -1, "x", 0.5, "y", true)), ""},
		{"argument", of("queue_arguments", of("a", []int{1})), "queue_arguments.a"},
		{"rejects into a source", of("reject_queue", "in"), "reject_queue"},
		{"rejects to both", of("reject_queue", "a", "reject_exchange", "b"), "reject_queue"},
		{"rejects into a source exchange", of("reject_exchange", "a", "exchanges", []any{of("name", "a", "to", "b")}), "reject_exchange"},
		{"properties", of("properties", "all"), "properties"},
		{"properties of exchanges", of("properties", "none", "exchanges", []any{of("name", "a", "to", "b")}), "properties"},
		{"compat", of("x_delay_compat", "keep"), "x_delay_compat"},
		{"prefetch", of("prefetch", 0), "prefetch"},
		{"large prefetch", of("prefetch", 65536), "prefetch"},
		{"batch", of("batch", 501), "batch"},
		{"timeout", of("dial_timeout", "1us"), "dial_timeout"},
		{"number for a timeout", of("confirm_timeout", "5"), "confirm_timeout"},
		{"heartbeat", of("heartbeat", "1ms"), "heartbeat"},
	}
	for _, tt := range tests {
		c := of("urls", []string{"amqp://u:secret@127.0.0.1/"}, "sink", "out", "queues", []string{"in"}, "topic", "orders", "on_bad_record", "stop")
		maps.Copy(c, tt.more)
		for name, value := range c {
			if value == nil {
				delete(c, name)
			}
		}
		raw, _ := json.Marshal(c)
		_, err := New("src", raw, core.NewBridge(sourcetest.NewStore(), core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if ok != (tt.field != "") || ok && invalid.Field != tt.field || !ok && err != nil {
			t.Errorf("%s: %v, want a fault of %q", tt.name, err, tt.field)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells the password", tt.name, err)
		}
	}
	for _, raw := range []string{``, `[]`, `null x`, `{} {}`} {
		if _, err := New("src", json.RawMessage(raw), core.NewBridge(nil, core.Options{}).Interceptor, nil); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
	if _, err := New("a source", json.RawMessage(`{}`), core.NewBridge(nil, core.Options{}).Interceptor, nil); err == nil {
		t.Error("a name with a space is taken")
	}
}
