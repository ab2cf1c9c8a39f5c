package httplistener

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func TestPublishedBecomesMessage(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	tests := map[string]struct {
		path, body string
		headers    []string
		want       core.Message
	}{
		"least": {"/v1/publish/orders/t", "", []string{"Delaybridge-Delay: 90s"},
			core.Message{Topic: "t", Delay: 90 * time.Second, Body: []byte{}, Generated: true}},
		"all": {"/v1/publish/orders/t%2Fu", "\x00\xff", []string{"Delaybridge-Deliver-At: " + soon.Format(time.RFC3339Nano), "Delaybridge-Id: a/b",
			"Delaybridge-Key: k", "Delaybridge-Ttl: P1D", "Delaybridge-Priority: 9", "Content-Type: text/plain"},
			core.Message{ID: "a/b", Topic: "t/u", Key: []byte("k"), Body: []byte("\x00\xff"), DeliverAt: soon, TTL: 24 * time.Hour, Priority: 9,
				Headers: []core.Header{header("content-type", "text/plain")}}},
		"any case and underscores": {"/v1/publish/orders/t", "x", []string{"DELAYBRIDGE_DELAY: 1h", "delaybridge_id: a", "delaybridge-KEY: k"},
			core.Message{ID: "a", Topic: "t", Key: []byte("k"), Body: []byte("x"), Delay: time.Hour}},
		"own headers": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-X-Trace: 2", "Delaybridge-Header-B_c: 1",
			"Delaybridge-Header-X-Trace: 1", "Authorization: secret", "Cookie: secret", "X-Other: no"},
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte("x"), Generated: true,
				Headers: []core.Header{header("b_c", "1"), header("x-trace", "2"), header("x-trace", "1")}}},
		"delivered before": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1h", "Delaybridge-Attempt: 1", "Delaybridge_Hop: 2", "Delaybridge-Id: a~2",
			"Delaybridge-Deliver-At: 2026-01-02T15:04:05.000Z", "Delaybridge-Header-X-Trace: 1"},
			core.Message{ID: "a~3", Topic: "t", Delay: time.Hour, Hop: 3, Body: []byte("x"),
				Headers: []core.Header{header("x-trace", "1"), header("delaybridge-hop", "3")}}},
		"delivered before, in own headers": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1h", "Delaybridge-Id: b", "Delaybridge-Header-Delaybridge-Attempt: 1"},
			core.Message{ID: "b", Topic: "t", Delay: time.Hour, Hop: 1, Body: []byte("x"), Headers: []core.Header{header("delaybridge-hop", "1")}}},
		"trace": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-A: 1", "Traceparent: " + parent, "Tracestate: a=b", "Tracestate: c=d"},
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte("x"), Generated: true,
				Headers: []core.Header{header("a", "1"), header("traceparent", parent), header("tracestate", "a=b,c=d")}}},
		"trace of its own": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-Traceparent: own", "Traceparent: " + parent},
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte("x"), Generated: true, Headers: []core.Header{header("traceparent", "own")}}},
		"expires_at": {"/v1/publish/orders/t", "x", []string{"Delaybridge-Delay: 1s", "Delaybridge-Expires-At: " + soon.Format(time.RFC3339Nano), "Delaybridge-Key: "},
			core.Message{Topic: "t", Delay: time.Second, ExpiresAt: soon, Key: []byte{}, Body: []byte("x"), Generated: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			a := f.do("POST", test.path, test.body, test.headers...)
			if a.status != 201 {
				t.Fatalf("got %d %s", a.status, a.text)
			}
			test.want.Sink = "orders"
			if diff := cmp.Diff(test.want, *f.store.parked[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInvalidPublish(t *testing.T) {
	tests := map[string]struct {
		path    string
		headers []string
		field   string
	}{
		"no time":               {"/v1/publish/orders/t", nil, "deliver_at"},
		"two times":             {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Deliver-At: 2031-02-03T00:00:00Z"}, "deliver_at"},
		"bare number":           {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 5"}, "delay"},
		"negative":              {"/v1/publish/orders/t", []string{"Delaybridge-Delay: -5s"}, "delay"},
		"delay twice":           {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Delay: 1h"}, "delaybridge-delay"},
		"delay twice, spelt":    {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge_Delay: 1h"}, "delaybridge-delay"},
		"unknown header":        {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Deliver: x"}, "delaybridge-deliver"},
		"sink in a header":      {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Sink: mails"}, "delaybridge-sink"},
		"body in a header":      {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Body: x"}, "delaybridge-body"},
		"prefix alone":          {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-: x"}, "delaybridge-"},
		"empty own name":        {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-: x"}, "headers"},
		"reserved own name":     {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-Delaybridge-Id: x"}, "headers"},
		"content type in two":   {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Content-Type: a/b", "Delaybridge-Header-Content-Type: c/d"}, "headers"},
		"own name, two spelt":   {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Header-A: 1", "Delaybridge_Header_A: 2"}, "headers"},
		"empty id":              {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Id: "}, "id"},
		"priority out of range": {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Priority: 10"}, "priority"},
		"ttl zero":              {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h", "Delaybridge-Ttl: 0s"}, "ttl"},
		"unknown sink":          {"/v1/publish/mails/t", []string{"Delaybridge-Delay: 1h"}, "sink"},
		"delay in the query":    {"/v1/publish/orders/t?delay=1h", []string{"Delaybridge-Delay: 1h"}, "query"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			a := f.do("POST", test.path, "x", test.headers...)
			f.refused(a, 400, "invalid")
			if a.json["field"] != test.field || a.json["stored"] != false {
				t.Errorf("got %s", a.text)
			}
		})
	}
}

// The request's headers come in no order, and a repeat must be the same content.
func TestPublishAgainIsADuplicate(t *testing.T) {
	f := newFixture(t, Config{})
	for n := range 20 {
		a := f.do("POST", "/v1/publish/orders/t", "x", "Delaybridge-Delay: 1h", "Delaybridge-Id: a", "Content-Type: a/b",
			"Delaybridge-Header-A: 1", "Delaybridge-Header-B: 2", "Delaybridge-Header-C: 3", "Delaybridge-Header-D: 4")
		if want := map[bool]int{true: 201, false: 200}[n == 0]; a.status != want {
			t.Fatalf("try %d: got %d %s", n, a.status, a.text)
		}
	}
	f.store.parked = nil
	a := f.do("POST", "/v1/publish/orders/t", "y", "Delaybridge-Delay: 1h", "Delaybridge-Id: a")
	if a.status != 409 || a.json["code"] != "conflict" || a.json["stored"] != false || a.json["id"] != "a" {
		t.Errorf("got %d %s", a.status, a.text)
	}
}
