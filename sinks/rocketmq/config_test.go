package rocketmq

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

// decoded are settings with a name server, and more.
func decoded(t testing.TB, more ...string) settings {
	t.Helper()
	s, err := decode(json.RawMessage("{" + strings.Join(append([]string{`"name_servers":["mq.example:9876"]`}, more...), ",") + "}"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConfigDefaults(t *testing.T) {
	s := decoded(t)
	if s.cluster.Group != "delaybridge" || s.cluster.Timeout != maxSendTimeout || s.workers != 4 || s.maxBatchBytes != 1<<20 ||
		s.maxMessageBytes != 4<<20 || s.flushAccepted {
		t.Errorf("got %+v", s)
	}
	if s := decoded(t, `"max_message_bytes":65536`); s.maxBatchBytes != 65535 {
		t.Errorf("a batch of %d bytes with messages of 65536", s.maxBatchBytes)
	}
}

func TestConfigFaults(t *testing.T) {
	const secret = "hunter2 hunter2"
	tests := []struct{ config, field string }{
		{``, "name_servers"},
		{`{}`, "name_servers"},
		{`[]`, "config"},
		{`{`, "config"},
		{`{"name_servers":["a:1"]} {}`, "config"},
		{`{"name_servers":"a:1"}`, "name_servers"},
		{`{"name_servers":["a"]}`, "name_servers[0]"},
		{`{"name_servers":["a:1","a:0"]}`, "name_servers[1]"},
		{`{"name_servers":["a:1;b:1"]}`, "name_servers[0]"},
		{`{"name_servers":["http://a:1"]}`, "name_servers[0]"},
		{`{"name_servers":["` + strings.Repeat(`a:1","`, 16) + `a:1"]}`, "name_servers"},
		{`{"name_servers":["a:1"],"topics":1}`, "topics"},
		{`{"name_servers":["a:1"],"group":"a b"}`, "group"},
		{`{"name_servers":["a:1"],"namespace":"a%b"}`, "namespace"},
		{`{"name_servers":["a:1"],"access_key":"k"}`, "secret_key"},
		{`{"name_servers":["a:1"],"secret_key":"hunter2"}`, "access_key"},
		{`{"name_servers":["a:1"],"access_key":"k","secret_key":"` + secret + `"}`, "secret_key"},
		{`{"name_servers":["a:1"],"security_token":"hunter2"}`, "security_token"},
		{`{"name_servers":["a:1"],"secret_key":["` + secret + `"]}`, "secret_key"},
		{`{"name_servers":["a:1"],"send_timeout":3}`, "send_timeout"},
		{`{"name_servers":["a:1"],"send_timeout":"3"}`, "send_timeout"},
		{`{"name_servers":["a:1"],"send_timeout":"4s"}`, "send_timeout"},
		{`{"name_servers":["a:1"],"send_timeout":"-1s"}`, "send_timeout"},
		{`{"name_servers":["a:1"],"workers":65}`, "workers"},
		{`{"name_servers":["a:1"],"workers":-1}`, "workers"},
		{`{"name_servers":["a:1"],"workers":"4"}`, "workers"},
		{`{"name_servers":["a:1"],"max_message_bytes":1000}`, "max_message_bytes"},
		{`{"name_servers":["a:1"],"max_message_bytes":16777216}`, "max_message_bytes"},
		{`{"name_servers":["a:1"],"max_batch_bytes":4194304}`, "max_batch_bytes"},
		{`{"name_servers":["a:1"],"max_batch_bytes":-1}`, "max_batch_bytes"},
		{`{"name_servers":["a:1"],"flush_timeouts":"ignore"}`, "flush_timeouts"},
	}
	for _, test := range tests {
		_, err := Open(t.Context(), json.RawMessage(test.config))
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if !ok || invalid.Field != test.field {
			t.Errorf("%s: got %v, want a fault of %s", test.config, err, test.field)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the secret: %v", test.config, err)
		}
	}
}
