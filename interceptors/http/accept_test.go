package httplistener

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/delaybridge/delaybridge/core"
)

func header(name, value string) core.Header { return core.Header{Name: name, Value: []byte(value)} }

func TestEnvelopeBecomesMessage(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	tests := map[string]struct {
		envelope string
		want     core.Message
	}{
		"least": {`{"topic":"t","delay":"90s"}`,
			core.Message{Topic: "t", Delay: 90 * time.Second, Body: []byte{}, Generated: true}},
		"delivered before": {`{"id":"a","sink":"orders","topic":"t","delay":"1h","headers":{"delaybridge-id":"a","delaybridge-attempt":"2","delaybridge-deliver-at":"2026-01-02T15:04:05.000Z","x":"1"}}`,
			core.Message{ID: "a~1", Topic: "t", Delay: time.Hour, Hop: 1, Body: []byte{}, Headers: []core.Header{header("x", "1"), header("delaybridge-hop", "1")}}},
		"all texts": {`{"id":"a/b","sink":"orders","topic":"t","key":"k","body":"hello","deliver_at":"` + soon.Format(time.RFC3339Nano) + `","ttl":"P1D","priority":9,"options":{"retry.max_attempts":"3"}}`,
			core.Message{ID: "a/b", Topic: "t", Key: []byte("k"), Body: []byte("hello"), DeliverAt: soon, TTL: 24 * time.Hour, Priority: 9,
				Options: map[string]string{"retry.max_attempts": "3"}}},
		"bytes": {envelopeWith(`"key_base64":"AP8=","body_base64":"AAECAw=="`),
			core.Message{Topic: "t", Delay: time.Hour, Key: []byte{0, 255}, Body: []byte{0, 1, 2, 3}, Generated: true}},
		"JSON body as it stands": {envelopeWith(`"body": {"a" : [1.0, "\u00e9", 1e400], "a":null} `),
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte(`{"a" : [1.0, "\u00e9", 1e400], "a":null}`), Generated: true}},
		"number body":  {envelopeWith(`"body":-0.50`), core.Message{Topic: "t", Delay: time.Hour, Body: []byte(`-0.50`), Generated: true}},
		"true body":    {envelopeWith(`"body":true`), core.Message{Topic: "t", Delay: time.Hour, Body: []byte(`true`), Generated: true}},
		"null body":    {envelopeWith(`"body":null`), core.Message{Topic: "t", Delay: time.Hour, Generated: true}},
		"empty body":   {envelopeWith(`"body":""`), core.Message{Topic: "t", Delay: time.Hour, Body: []byte{}, Generated: true}},
		"escapes":      {envelopeWith(`"body":"\"\\\/\b\f\n\r\t\u0000\u00e9\ud83d\ude00é"`), core.Message{Topic: "t", Delay: time.Hour, Body: []byte("\"\\/\b\f\n\r\t\x00é😀é"), Generated: true}},
		"escaped name": {`{"\u0074opic":"t","delay":"1h"}`, core.Message{Topic: "t", Delay: time.Hour, Body: []byte{}, Generated: true}},
		"empty key":    {envelopeWith(`"key":""`), core.Message{Topic: "t", Delay: time.Hour, Key: []byte{}, Body: []byte{}, Generated: true}},
		"nulls are absent": {`{"id":null,"sink":null,"topic":"t","key":null,"key_base64":"aw==","headers":null,"body_base64":null,"delay":"1h","deliver_at":null,"ttl":null,"expires_at":null,"priority":null,"options":null}`,
			core.Message{Topic: "t", Delay: time.Hour, Key: []byte("k"), Body: []byte{}, Generated: true}},
		"header object": {envelopeWith(`"headers":{"z":"1","a":["2",null,"3"],"n":null}`),
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte{}, Generated: true,
				Headers: []core.Header{header("z", "1"), header("a", "2"), {Name: "a"}, header("a", "3"), {Name: "n"}}}},
		"header array": {envelopeWith(`"headers":[{"name":"z","value":"1"},{"value_base64":"DQoA","name":"a"},{"name":"z","value":null}]`),
			core.Message{Topic: "t", Delay: time.Hour, Body: []byte{}, Generated: true,
				Headers: []core.Header{header("z", "1"), header("a", "\r\n\x00"), {Name: "z"}}}},
		"finer than a millisecond": {`{"topic":"t","delay":"1.0001ms"}`,
			core.Message{Topic: "t", Delay: 2 * time.Millisecond, Body: []byte{}, Generated: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			f.mustStore(test.envelope)
			test.want.Sink = "orders"
			got := *f.store.parked[0]
			if diff := cmp.Diff(test.want, got, cmpopts.EquateApproxTime(0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAcceptAnswers(t *testing.T) {
	f := newFixture(t, Config{})
	envelope := `{"id":"a/b","topic":"t","body":"x","deliver_at":"` + time.Now().Add(time.Hour).Format("2006-01-02T15:04:05.678Z07:00") + `"}`

	first := f.do("POST", "/v1/messages", envelope, "Content-Type: application/json; charset=UTF-8")
	if first.status != 201 || first.header.Get("Location") != "/v1/messages/a%2Fb?sink=orders" {
		t.Errorf("got %d %v", first.status, first.header)
	}
	if first.json["id"] != "a/b" || first.json["sink"] != "orders" || first.json["state"] != "scheduled" || first.json["durability"] == "" {
		t.Errorf("got %s", first.text)
	}
	if at := first.json["deliver_at"].(string); !strings.HasSuffix(at, ".678Z") {
		t.Errorf("milliseconds were lost: %s", at)
	}
	if _, there := first.json["duplicate"]; there {
		t.Errorf("called a duplicate: %s", first.text)
	}
	again := f.do("POST", "/v1/messages", envelope)
	if again.status != 200 || again.json["duplicate"] != true || again.json["deliver_at"] != first.json["deliver_at"] {
		t.Errorf("got %d %s", again.status, again.text)
	}
	followed := f.do("GET", first.header.Get("Location"), "")
	if followed.status != 200 || followed.json["id"] != "a/b" {
		t.Errorf("the location leads to %d %s", followed.status, followed.text)
	}
}

func TestSinkMayBeOmittedOnlyIfThereIsOne(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	a := f.do("POST", "/v1/messages", `{"topic":"t","delay":"1h"}`)
	f.refused(a, 400, "invalid")
	if a.json["field"] != "sink" {
		t.Errorf("got %s", a.text)
	}
	f.mustStore(envelopeWith(`"sink":"mails"`))
}

func TestSameIDFromManyClients(t *testing.T) {
	f := newFixture(t, Config{})
	var created, repeated int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			a := f.do("POST", "/v1/messages", envelopeWith(`"id":"one","body":"x"`))
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case 201:
				created++
			case 200:
				repeated++
			}
		})
	}
	group.Wait()
	if created != 1 || repeated != 99 {
		t.Errorf("%d created, %d duplicates", created, repeated)
	}
	if page := f.do("GET", "/v1/messages", ""); len(page.json["messages"].([]any)) != 1 {
		t.Errorf("stored: %s", page.text)
	}
}

func TestStoreErrorsAtAccept(t *testing.T) {
	tests := map[string]struct {
		err        error
		status     int
		code       string
		stored     any
		retryAfter string
	}{
		"unavailable": {core.ErrUnavailable, 503, "unavailable", false, "1"},
		"full":        {core.ErrFull, 503, "store_full", false, "5"},
		"unknown":     {core.ErrUnknown, 503, "outcome_unknown", "unknown", "1"},
		"no class":    {errors.New("odd"), 503, "outcome_unknown", "unknown", "1"},
		"conflict":    {core.ErrConflict, 409, "conflict", false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFailing(t, &failing{err: test.err})
			a := f.do("POST", "/v1/messages", envelopeWith(`"id":"mine"`))
			if a.status != test.status || a.json["code"] != test.code || a.json["stored"] != test.stored || a.header.Get("Retry-After") != test.retryAfter {
				t.Errorf("got %d %s %v", a.status, a.text, a.header)
			}
			if test.stored == "unknown" && a.json["id"] != "mine" {
				t.Errorf("no id to try again with: %s", a.text)
			}
			generated := f.do("POST", "/v1/messages", `{"topic":"t","delay":"1h"}`)
			if test.stored == "unknown" && len(generated.json["id"].(string)) == 0 {
				t.Errorf("no id to try again with: %s", generated.text)
			}
			line := f.do("POST", "/v1/messages/batch", envelopeWith(`"id":"mine"`))
			if line.status != 200 || line.json["code"] != test.code || line.json["stored"] != test.stored {
				t.Errorf("in a batch: %d %s", line.status, line.text)
			}
		})
	}
}
