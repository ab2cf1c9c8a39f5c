package rocketmqsource

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

func TestDefaults(t *testing.T) {
	_, s, err := decode(json.RawMessage(`{"name_servers": ["a:9876", "[::1]:9876"], "topics": ["orders-delayed"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.group != "delaybridge" || s.cluster.Namespace != "" || s.latest || s.rejectTopic != "" || s.asHeaders || s.batch != 500 ||
		s.cluster.Timeout != 3*time.Second || s.cluster.Credentials != (rocketmq.Credentials{}) || s.expression() != "*" {
		t.Errorf("got %+v", s)
	}
}

func TestEverySetting(t *testing.T) {
	c, s, err := decode(json.RawMessage(`{"name_servers": ["a:1"], "topics": ["a", "b"], "tags": ["x", "y"], "group": "g", "namespace": "n",
		"access_key": "u", "secret_key": "p", "security_token": "t", "start": "latest", "reject_topic": "r", "properties": "headers",
		"batch": 7, "request_timeout": "400ms",
		"dialects": ["native"], "sink": "out", "topic": "{topic}", "trim_suffix": "-x", "allow_target_headers": true, "untagged": "delay",
		"default_delay": "5m", "allow_topics": ["RMQ_SYS_X"], "allow_loop": true}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.group != "n%g" || s.cluster.OnWire("a") != "n%a" || !s.latest || s.rejectTopic != "r" || !s.asHeaders || s.batch != 7 ||
		s.cluster.Timeout != 400*time.Millisecond || s.cluster.Credentials != (rocketmq.Credentials{AccessKey: "u", SecretKey: "p", SecurityToken: "t"}) || len(s.topics) != 2 || s.expression() != "x || y" {
		t.Errorf("got %+v", s)
	}
	if c.Sink != "out" || c.Topic != "{topic}" || c.TrimSuffix != "-x" || !c.AllowTargetHeaders || c.Untagged != "delay" || c.DefaultDelay != "5m" ||
		c.AllowTopics[0] != "RMQ_SYS_X" || !c.AllowLoop || c.Dialects[0] != "native" {
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
		{`{"name_servers": null}`, "name_servers"},
		{`{"name_servers": ["a"]}`, "name_servers[0]"},
		{`{"name_servers": ["a:1", "http://b:1"]}`, "name_servers[1]"},
		{`{"name_servers": ["a:1;b:2"]}`, "name_servers[0]"},
		{`{"name_servers": "a:1"}`, "name_servers"},
		{`{"name_servers": ["a:70000"]}`, "name_servers[0]"},
		{`{"topics": []}`, "topics"},
		{`{"topics": ["a", "a"]}`, "topics[1]"},
		{`{"topics": ["a.b"]}`, "topics[0]"},
		{`{"topics": ["` + strings.Repeat("a", 128) + `"]}`, "topics[0]"},
		{`{"topics": ["SCHEDULE_TOPIC_XXXX"]}`, "topics[0]"},
		{`{"topics": ["rmq_sys_wheel_timer"]}`, "topics[0]"},
		{`{"topics": ["%DLQ%g"], "namespace": "n"}`, "topics[0]"},
		{`{"reject_topic": "orders-delayed"}`, "reject_topic"},
		{`{"reject_topic": "a/b"}`, "reject_topic"},
		{`{"reject_topic": "%DLQ%g"}`, "reject_topic"},
		{`{"tags": ["a||b"]}`, "tags[0]"},
		{`{"tags": ["a", "*"]}`, "tags[1]"},
		{`{"tags": ["a", "a"]}`, "tags[1]"},
		{`{"group": "a.b"}`, "group"},
		{`{"group": "` + strings.Repeat("a", 256) + `"}`, "group"},
		{`{"namespace": "a%b"}`, "namespace"},
		{`{"access_key": "a"}`, "secret_key"},
		{`{"secret_key": "a"}`, "access_key"},
		{`{"security_token": "a"}`, "security_token"},
		{`{"access_key": "a b", "secret_key": "c"}`, "access_key"},
		{`{"start": "newest"}`, "start"},
		{`{"properties": "both"}`, "properties"},
		{`{"batch": 0}`, "batch"},
		{`{"batch": 501}`, "batch"},
		{`{"batch": "7"}`, "batch"},
		{`{"request_timeout": "5"}`, "request_timeout"},
		{`{"request_timeout": "1ms"}`, "request_timeout"},
		{`{"on_bad_record": null}`, "reject_topic"},
		{`{"reject_topic": "r"}`, "on_bad_record"},
		{`{"sink": "nowhere"}`, "sink"},
		{`{"topic": "orders-delayed"}`, "topic"},
		{`{"untagged": "later"}`, "untagged"},
		{`{"dialects": ["rocket"]}`, "dialects"},
		{`{"trim_suffix": 1}`, "trim_suffix"},
	} {
		settings := map[string]json.RawMessage{"name_servers": json.RawMessage(`["a:1"]`), "topics": json.RawMessage(`["orders-delayed"]`),
			"sink": json.RawMessage(`"out"`), "topic": json.RawMessage(`"orders"`), "on_bad_record": json.RawMessage(`"stop"`)}
		var more map[string]json.RawMessage
		if err := json.Unmarshal([]byte(test.more), &more); err != nil {
			t.Fatal(err)
		}
		maps.Copy(settings, more)
		raw, err := json.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New("src", raw, in, nil)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != test.field {
			t.Errorf("%s: %v, want an error of %s", test.more, err, test.field)
		}
	}
	for _, raw := range []string{``, `[]`, `{} {}`, `null x`} {
		if _, err := New("src", json.RawMessage(raw), in, nil); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
	if _, err := New("a b", json.RawMessage(`{}`), in, nil); err == nil {
		t.Error("a name with a space is taken")
	}
}
