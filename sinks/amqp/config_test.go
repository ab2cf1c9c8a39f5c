package amqp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

func TestOpenFillsInDefaults(t *testing.T) {
	s, err := decode(json.RawMessage(`{"urls":["amqp://one/"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !s.mandatory || s.deliveryMode != amqp091.Persistent || s.connections != 1 || s.channels != 16 ||
		s.maxMessageSize != 16<<20 || s.cluster.DialTimeout != 3*time.Second {
		t.Errorf("defaults: %+v", s)
	}
}

func TestOpenTakesWhatIsWritten(t *testing.T) {
	s, err := decode(json.RawMessage(`{"urls":["amqp://one"],"exchange":"x","mandatory":false,"persistent":false,"connections":2,
		"channels":3,"max_message_size":4,"dial_timeout":"5s"}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.exchange != "x" || s.mandatory || s.deliveryMode != amqp091.Transient || s.connections != 2 || s.channels != 3 ||
		s.maxMessageSize != 4 || s.cluster.DialTimeout != 5*time.Second {
		t.Errorf("settings: %+v", s)
	}
}

func TestOpenRefuses(t *testing.T) {
	url := `"urls":["amqp://user:hunter2@host/"]`
	tests := []struct{ config, field string }{
		{``, "urls"},
		{`[]`, "config"},
		{`{` + url + `} {}`, "config"},
		{`{}`, "urls"},
		{`{"urls":[]}`, "urls"},
		{`{"urls":"amqp://host"}`, "urls"},
		{`{"urls":["http://user:hunter2@host/"]}`, "urls[0]"},
		{`{"urls":["amqp://user:hunter2/@host/"]}`, "urls[0]"},
		{`{"urls":["amqp://user:hunter2@host:port/"]}`, "urls[0]"},
		{`{"urls":["amqp://host","amqp:///"]}`, "urls[1]"},
		{`{"urls":["amqp://user:hunter2@host/?heartbeat=1"]}`, "urls[0]"},
		{`{"urls":["amqp://user:hunter2@host/%zz"]}`, "urls[0]"},
		{`{"urls":["amqp://user:hunter 2@host/"]}`, "urls[0]"},
		{`{` + url + `,"exchnage":"x"}`, "exchnage"},
		{`{` + url + `,"exchange":"` + strings.Repeat("x", 256) + `"}`, "exchange"},
		{`{` + url + `,"mandatory":"yes"}`, "mandatory"},
		{`{` + url + `,"connections":0}`, "connections"},
		{`{` + url + `,"connections":65}`, "connections"},
		{`{` + url + `,"channels":-1}`, "channels"},
		{`{` + url + `,"max_message_size":0}`, "max_message_size"},
		{`{` + url + `,"dial_timeout":"soon"}`, "dial_timeout"},
		{`{` + url + `,"dial_timeout":3}`, "dial_timeout"},
		{`{` + url + `,"write_timeout":"1ms"}`, "write_timeout"},
		{`{` + url + `,"heartbeat":"999ms"}`, "heartbeat"},
		{`{` + url + `,"tls":{}}`, "tls"},
		{`{"urls":["amqps://host"],"tls":{"ca":"/does/not/exist"}}`, "tls.ca"},
		{`{"urls":["amqps://host"],"tls":{"cert":"a"}}`, "tls.key"},
		{`{"urls":["amqps://host"],"tls":{"key":"a"}}`, "tls.cert"},
		{`{"urls":["amqps://host"],"tls":{"cart":"a"}}`, "cart"},
	}
	for _, tt := range tests {
		t.Run(tt.config, func(t *testing.T) {
			_, err := Open(t.Context(), json.RawMessage(tt.config))
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field != tt.field {
				t.Errorf("Open = %v, want an InvalidError for %s", err, tt.field)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("the password is shown: %v", err)
			}
		})
	}
}
