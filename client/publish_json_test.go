package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/delaybridge/delaybridge/client"
)

func TestPublishJSON(t *testing.T) {
	d, c := fixture(t)
	messages := []json.RawMessage{
		[]byte(`{"id":"a","topic":"t","delay":"1h","body":{"n": 1}}`),
		[]byte(`{"topic":"t","delay":"1h"}`),
		[]byte(`[]`),
		[]byte("{\"id\":\"d\",\n\"topic\":\"t\",\"delay\":\"1h\"}"),
		[]byte(`{"id":"e","topic":"t","delay":"soon"}`),
		[]byte(`{"id":"f","sink":"orders","topic":"t","delay":"1h","body":"text"}`),
	}
	receipts, err := c.PublishJSON(context.Background(), messages)
	failed, ok := errors.AsType[client.BatchError](err)
	if !ok || len(failed) != len(messages) {
		t.Fatalf("error %v", err)
	}
	for n, want := range []error{nil, client.ErrInvalid, client.ErrInvalid, client.ErrInvalid, client.ErrInvalid, nil} {
		if !errors.Is(failed[n], want) {
			t.Errorf("message %d: %v, want %v", n, failed[n], want)
		}
	}
	if receipts[0].ID != "a" || receipts[0].State != client.Scheduled || receipts[5].Sink != "orders" {
		t.Errorf("receipts %+v", receipts)
	}
	if len(d.store.parked) != 2 || string(d.store.parked[0].Body) != `{"n": 1}` {
		t.Errorf("parked %+v", d.store.parked)
	}
}

func TestHealth(t *testing.T) {
	d, c := fixture(t)
	health, err := c.Health(context.Background())
	if err != nil || !health.Ready || health.Durability != "memory" {
		t.Errorf("%+v, %v", health, err)
	}
	answer := func(status int, contentType, body string) {
		d.first(1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			w.Write([]byte(body))
		})
	}
	answer(503, "application/json", `{"ready":false,"reason":"r","durability":"fsync","sinks":{"a":"paused"}}`)
	health, err = c.Health(context.Background())
	if err != nil || health.Ready || health.Reason != "r" || health.Sinks["a"] != "paused" {
		t.Errorf("not ready: %+v, %v", health, err)
	}
	answer(200, "application/json", `{"ready":true}`)
	if _, err = c.Health(context.Background()); err == nil {
		t.Error("another server is healthy")
	}
}
