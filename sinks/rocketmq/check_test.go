package rocketmq

import (
	"errors"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

func header(name, value string) func(*core.Message) {
	return func(m *core.Message) { m.Headers = append(m.Headers, core.Header{Name: name, Value: []byte(value)}) }
}

func option(name, value string) func(*core.Message) {
	return func(m *core.Message) { m.Options = map[string]string{name: value} }
}

func body(size int) func(*core.Message) { return func(m *core.Message) { m.Body = make([]byte, size) } }

func TestCheckPasses(t *testing.T) {
	tests := map[string]func(*core.Message){
		"plain":                   func(*core.Message) {},
		"no id yet":               func(m *core.Message) { m.ID = "" },
		"topic of 127":            topic(strings.Repeat("t", 127)),
		"topic characters":        topic("%a|B_9-z"),
		"largest body":            body(defaultMaxMessage - bodyRoom),
		"empty body":              body(0),
		"header with line break":  header("x", "a\r\nb\x00c"),
		"header name with spaces": header("größe : x", "y"),
		"names differ by case":    func(m *core.Message) { header("a", "1")(m); header("A", "2")(m) },
		"header of 30 KiB":        header("x", strings.Repeat("v", 30<<10)),
		"published again": func(m *core.Message) {
			for _, name := range []string{"DELAY", "TIMER_OUT_MS", "CLUSTER", "UNIQ_KEY", "__RMQ.TRANSIENT.X", core.HeaderHop} {
				header(name, "1")(m)
			}
		},
		"binary key and another": func(m *core.Message) { key("\x00\xff")(m); option("sharding_key", "a")(m) },
		"tag":                    option("tags", "a b"),
		"keys":                   option("keys", "a b"),
		"sharding key":           option("sharding_key", "ü"),
		"option of the engine":   option("retry.initial", "1s"),
	}
	s := newSink(decoded(t))
	for name, change := range tests {
		if err := s.check(message(1, change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*core.Message)
		field  string
		large  bool
	}{
		"topic of 128":           {topic(strings.Repeat("t", 128)), "topic", true},
		"topic with dot":         {topic("a.b"), "topic", false},
		"topic for retries":      {topic("%RETRY%group"), "topic", false},
		"in another namespace":   {topic("ns%%RETRY%group"), "topic", false},
		"topic for dead letters": {topic("%DLQ%group"), "topic", false},
		"schedule topic":         {topic("SCHEDULE_TOPIC_XXXX"), "topic", false},
		"default topic":          {topic("TBW102"), "topic", false},
		"system topic":           {topic("RMQ_SYS_TRANS_HALF_TOPIC"), "topic", false},
		"system topic, small":    {topic("rmq_sys_wheel_timer"), "topic", false},
		"body too large":         {body(defaultMaxMessage - bodyRoom + 1), "body", true},
		"headers too large":      {header("x", strings.Repeat("v", 32<<10)), "headers", true},
		"unknown option":         {option("tag", "x"), "options.tag", false},
		"empty option":           {option("tags", ""), "options.tags", false},
		"two tags":               {option("tags", "a||b"), "options.tags", false},
		"binary option":          {option("keys", "a\x02b"), "options.keys", false},
		"separator 1 in the key": {key("a\x01b"), "key", false},
		"separator 2 in the key": {key("a\x02b"), "key", false},
		"binary key":             {key("\x00\xff"), "key", false},
		"separator 1 in value":   {header("x", "a\x01b"), "headers", false},
		"separator 2 in value":   {header("x", "a\x02b"), "headers", false},
		"separator in name":      {header("a\x01b", "x"), "headers", false},
		"binary value":           {header("x", "\xff"), "headers", false},
		"empty value":            {header("x", ""), "headers", false},
		"repeated name":          {func(m *core.Message) { header("x", "1")(m); header("x", "1")(m) }, "headers", false},
		"transaction":            {header("TRAN_MSG", "true"), "headers", false},
		"keys as header":         {header("KEYS", "k"), "headers", false},
		"tags as header":         {header("TAGS", "k"), "headers", false},
		"message type":           {header("MSG_TYPE", "reply"), "headers", false},
		"transient property":     {header("__RMQ.TRANSIENT.X", "1"), "headers", false},
		"sharding key as header": {header("__SHARDINGKEY", "1"), "headers", false},
		"client's id as header":  {header("UNIQ_KEY", "1"), "headers", false},
		"delay level":            {header("DELAY", "3"), "headers", false},
		"time of a timer":        {header("TIMER_DELIVER_MS", "1"), "headers", false},
		"mark of a timer":        {header("TIMER_ROLL_TIMES", "1"), "headers", false},
		"time of a cloud":        {header("__STARTDELIVERTIME", "1"), "headers", false},
		"published again, keys":  {func(m *core.Message) { header("KEYS", "k")(m); header(core.HeaderHop, "1")(m) }, "headers", false},
	}
	s := newSink(decoded(t))
	for name, test := range tests {
		invalid, ok := errors.AsType[*core.InvalidError](s.check(message(1, test.change)))
		if !ok || invalid.Field != test.field || invalid.TooLarge != test.large {
			t.Errorf("%s: got %+v, want a fault of %s, too large %v", name, invalid, test.field, test.large)
		}
	}
}

// A sink with a namespace must not reach into another.
func TestCheckNamespace(t *testing.T) {
	s := newSink(decoded(t, `"namespace":"ns"`))
	for name, want := range map[string]bool{"a": true, "other%a": false, "%a": false,
		strings.Repeat("t", 124): true, strings.Repeat("t", 125): false} {
		if err := s.check(message(1, topic(name))); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
