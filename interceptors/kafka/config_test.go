package kafkasource

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

func TestDefaults(t *testing.T) {
	_, s, err := decode(json.RawMessage(`{"brokers": ["a:9092", "[::1]:9093"], "topics": ["orders.delayed"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.group != "delaybridge" || s.ClientID != "delaybridge" || s.start != kafka.FirstOffset || s.rejectTopic != "" ||
		s.batch != 500 || s.fetchBytes != 1<<20 || s.maxBatchBytes != 64<<20 || s.TLS != nil || s.SASL != nil ||
		s.sessionTimeout != 10*time.Second || s.DialTimeout != 3*time.Second || s.RequestTimeout != 5*time.Second {
		t.Errorf("got %+v", s)
	}
}

func TestEverySetting(t *testing.T) {
	c, s, err := decode(json.RawMessage(`{"brokers": ["a:1"], "topics": ["a", "b"], "group": "g", "start": "latest", "reject_topic": "r",
		"batch": 7, "fetch_bytes": 2000, "max_batch_bytes": 3000, "buffer_bytes": 4000, "client_id": "me", "session_timeout": "6s", "dial_timeout": "3m", "request_timeout": "40ms",
		"tls": {"server_name": "b", "insecure_skip_verify": true}, "sasl": {"mechanism": "SCRAM-SHA-256", "username": "u", "password": "p"},
		"dialects": ["native"], "sink": "out", "topic": "{topic}", "trim_suffix": ".x", "allow_target_headers": true, "untagged": "delay",
		"default_delay": "5m", "allow_topics": ["amq.topic"], "allow_loop": true}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.group != "g" || s.ClientID != "me" || s.start != kafka.LastOffset || s.rejectTopic != "r" || s.batch != 7 || s.fetchBytes != 2000 ||
		s.maxBatchBytes != 3000 || s.bufferBytes != 4000 || s.TLS.ServerName != "b" || !s.TLS.InsecureSkipVerify || s.SASL.Name() != "SCRAM-SHA-256" ||
		s.sessionTimeout != 6*time.Second || s.DialTimeout != 3*time.Minute || s.RequestTimeout != 40*time.Millisecond || len(s.topics) != 2 {
		t.Errorf("got %+v", s)
	}
	if c.Sink != "out" || c.Topic != "{topic}" || c.TrimSuffix != ".x" || !c.AllowTargetHeaders || c.Untagged != "delay" || c.DefaultDelay != "5m" ||
		c.AllowTopics[0] != "amq.topic" || !c.AllowLoop || c.Dialects[0] != "native" {
		t.Errorf("got %+v", c.Config)
	}
}

func TestBadConfiguration(t *testing.T) {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "out"}).Interceptor
	for _, test := range []struct {
		more  string // members that replace or add to a good configuration
		field string
	}{
		{`{"topic_s": 1}`, "topic_s"},
		{`{"brokers": null}`, "brokers"},
		{`{"brokers": "a:1"}`, "brokers"},
		{`{"topics": []}`, "topics"},
		{`{"topics": ["a", "a"]}`, "topics[1]"},
		{`{"topics": ["a b"]}`, "topics[0]"},
		{`{"topics": ["."]}`, "topics[0]"},
		{`{"topics": ["` + strings.Repeat("a", 250) + `"]}`, "topics[0]"},
		{`{"reject_topic": "orders.delayed"}`, "reject_topic"},
		{`{"reject_topic": "a/b"}`, "reject_topic"},
		{`{"group": "` + strings.Repeat("a", 256) + `"}`, "group"},
		{`{"start": "newest"}`, "start"},
		{`{"batch": 0}`, "batch"},
		{`{"batch": 501}`, "batch"},
		{`{"batch": 1.5}`, "batch"},
		{`{"fetch_bytes": 1}`, "fetch_bytes"},
		{`{"max_batch_bytes": 1000000000}`, "max_batch_bytes"},
		{`{"buffer_bytes": 100}`, "buffer_bytes"},
		{`{"session_timeout": "5"}`, "session_timeout"},
		{`{"session_timeout": "999ms"}`, "session_timeout"},
		{`{"tls": true}`, "tls"},
		{`{"sasl": {"mechanism": "plain", "username": "u"}}`, "sasl.password"},
		{`{"sasl": {"mechanism": "gssapi", "username": "u", "password": "hunter2"}}`, "sasl.mechanism"},
		{`{"on_bad_record": null}`, "reject_topic"},
		{`{"on_bad_record": "reject"}`, "reject_topic"},
		{`{"on_bad_record": "drop"}`, "on_bad_record"},
		{`{"reject_topic": "r"}`, "on_bad_record"},
		{`{"reject_topic": "r", "on_bad_record": "skip"}`, "on_bad_record"},
		{`{"sink": 5}`, "sink"},
		{`{"sink": "nowhere"}`, "sink"},
		{`{"topic": ""}`, "topic"},
		{`{"topic": "{topic}"}`, "topic"},
		{`{"allow_loop": "yes"}`, "allow_loop"},
		{`{"dialects": ["jms"]}`, "dialects"},
		{`{"untagged": "drop"}`, "untagged"},
	} {
		var good, more map[string]any
		if err := errors.Join(json.Unmarshal([]byte(`{"brokers": ["a:1"], "topics": ["orders.delayed"], "sink": "out", "topic": "orders", "on_bad_record": "stop"}`), &good),
			json.Unmarshal([]byte(test.more), &more)); err != nil {
			t.Fatal(err)
		}
		maps.Copy(good, more)
		raw, err := json.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New("src", raw, in, nil)
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if !ok || invalid.Field != test.field || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", test.more, err)
		}
	}
	good := `{"brokers": ["a:1"], "topics": ["orders.delayed"], "sink": "out", "topic": "orders", "reject_topic": "r"}`
	for raw, field := range map[string]string{"": "brokers", "[]": "config", good + " {}": "config", good + " x": "config"} {
		_, err := New("src", json.RawMessage(raw), in, nil)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := New("a source", json.RawMessage(good), in, nil); err == nil {
		t.Error("a bad name passed")
	}
	if _, err := New("src", json.RawMessage(good), in, nil); err != nil {
		t.Error(err)
	}
}
