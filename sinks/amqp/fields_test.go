package amqp

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

func TestHeaderTypes(t *testing.T) {
	tests := []struct {
		kind, text string
		want       any // an error type for a refusal
	}{
		{"S", "\xff", "\xff"}, {"x", "\xff", []byte("\xff")},
		{"t", "true", true}, {"t", "false", false}, {"t", "1", errFieldText},
		{"b", "-128", int8(-128)}, {"b", "128", errFieldText}, {"B", "255", uint8(255)}, {"B", "-1", errFieldText},
		{"s", "-32768", int16(math.MinInt16)}, {"u", "65535", uint16(math.MaxUint16)}, {"u", "65536", errFieldText},
		{"I", "-5", int32(-5)}, {"I", "2147483648", errFieldText}, {"i", "4294967295", uint32(math.MaxUint32)},
		{"l", "-9223372036854775808", int64(math.MinInt64)}, {"l", "9223372036854775808", errFieldText}, {"l", "", errFieldText},
		{"f", "0.1", float32(0.1)}, {"d", "1e-7", 1e-7}, {"d", "x", errFieldText},
		{"D", "-1234e-2", amqp091.Decimal{Scale: 2, Value: -1234}}, {"D", "12", errFieldText}, {"D", "1e-256", errFieldText},
		{"T", "-1", time.Unix(-1, 0)}, {"T", "2026", time.Unix(2026, 0)},
		{"F", `{}`, amqp091.Table{}}, {"A", `[]`, []any{}}, {"F", `null`, errFieldJSON}, {"A", `null`, errFieldJSON}, {"F", `[]`, errFieldJSON},
		{"A", `[["F",{"count":["l","1"],"keys":["A",[["S","a"],["V"]]],"x":["x","/wA="],"s":["Sx","/w=="]}]]`,
			[]any{amqp091.Table{"count": int64(1), "keys": []any{"a", nil}, "x": []byte{255, 0}, "s": "\xff"}}},
		{"A", `["S"]`, errFieldJSON}, {"A", `[["S"]]`, errFieldJSON}, {"A", `[["V",""]]`, errFieldType}, {"A", `[["S","a","b"]]`, errFieldJSON},
		{"A", `[["l",1]]`, errFieldJSON}, {"A", `[["x","%"]]`, errFieldText}, {"A", `[["Q","1"]]`, errFieldType}, {"Q", "1", errFieldType}, {"V", "", errFieldType},
	}
	for _, tt := range tests {
		got, err := fieldOf(tt.kind, []byte(tt.text))
		if want, ok := tt.want.(error); ok {
			if !errors.Is(err, want) {
				t.Errorf("%s %q: error %v, want %v", tt.kind, tt.text, err, want)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s %q: %v %s", tt.kind, tt.text, err, diff)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	text := "[]"
	for depth := 2; depth < 40; depth++ {
		text = `[["A",` + text + `]]`
		if _, err := fieldOf("A", []byte(text)); (depth > maxFieldDepth) != errors.Is(err, errFieldDeep) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

func TestOptionsOfProperties(t *testing.T) {
	m := &core.Message{ID: "i", Topic: "t", Priority: 3, DeliverAt: due, Attempt: 1,
		Headers: []core.Header{{Name: "text", Value: []byte("1")}, {Name: "number", Value: []byte("1")}, {Name: "none"}, {Name: "last", Value: []byte("2")}},
		Options: map[string]string{"message_id": "theirs", "priority": "200", "timestamp": "0", "x_delay": "-5000", "header_types": "SlI"}}
	o, err := testSettings().outgoing(m)
	if err != nil {
		t.Fatal(err)
	}
	want := amqp091.Publishing{MessageId: "theirs", Priority: 200, Timestamp: time.Unix(0, 0), DeliveryMode: 2,
		Headers: amqp091.Table{"text": "1", "number": int64(1), "none": nil, "last": "2", "x-delay": int32(-5000),
			core.HeaderID: "i", core.HeaderAttempt: "1", core.HeaderDeliverAt: "2026-01-02T15:04:05.000Z"}}
	if diff := cmp.Diff(want, o.Publishing); diff != "" {
		t.Error(diff)
	}
	m.Options = map[string]string{"x_delay": "-4294967295"}
	if o, err := testSettings().outgoing(m); err != nil || o.Headers["x-delay"] != int64(-4294967295) {
		t.Errorf("%v, %v", o, err)
	}
	for text, want := range map[string]any{"S-1500.5": "-1500.5", "x-5": []byte("-5"), "d-1500.25": -1500.25, "f-0.5": float32(-0.5), "d-1e+300": -1e300,
		"D-15005e-1": amqp091.Decimal{Scale: 1, Value: -15005}, "S0": "0", "S0.0": "0.0"} {
		m.Options = map[string]string{"x_delay": text}
		if o, err := testSettings().outgoing(m); err != nil || !cmp.Equal(o.Headers["x-delay"], want) {
			t.Errorf("%s: %v, %v", text, o, err)
		}
	}
	for _, text := range []string{"", "S", "S5", "S-", "d1", "dNaN", "d-Inf", "D5e-1", "I-5", "t-1", "Sx", "S-5 ", "-", "S--5", "d-1e"} {
		m.Options = map[string]string{"x_delay": text}
		if o, err := testSettings().outgoing(m); err == nil {
			t.Errorf("%s: %v", text, o.Headers["x-delay"])
		}
	}
	for name, value := range map[string]string{"message_id": "\n", "priority": "256", "timestamp": "now", "x_delay": "1", "header_types": "SSSSS", "expiration_ms": "1.5"} {
		m.Options = map[string]string{name: value}
		_, err := testSettings().outgoing(m)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "options."+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
