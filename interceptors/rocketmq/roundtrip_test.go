//go:build unix

package rocketmqsource

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/rocketmq"
)

// TestRoundTrip has messages go through source, engine and sink: what arrives is
// what was sent, never early, with the headers of delivery besides.
func TestRoundTrip(t *testing.T) {
	r := newRig(t)
	in, out := r.topic("-delayed", 1), r.topic("", 1)
	config, err := json.Marshal(map[string]any{"name_servers": r.NameServers(), "group": r.name + "-sink"})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := rocketmq.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	bridge := core.NewBridge(r.store, core.Options{}, &core.Dispatcher{Name: "out", Sink: sink})
	src, err := New("src", r.config([]string{in}, map[string]any{"topic": "{topic}", "trim_suffix": "-delayed"}), bridge.Interceptor, r.logger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx, core.Input{Name: "source", Run: src.Run}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	every := make([]byte, 256)
	for n := range every {
		every[n] = byte(n)
	}
	sent := []one{
		{string(every), props("KEYS", "k1 k2", "TAGS", "paid", "__SHARDINGKEY", "customer 7", "trace", "ü-1", "B", "2", "UNIQ_KEY", "7F01", "delaybridge-delay", "1500ms")},
		{"", props("only", "headers", "delaybridge-delay", "1500ms")},
		{"waited", props("DELAY", "1", "x", "y")},
	}
	r.sendBatch(in, 0, sent[:2]...) // 5.x takes an empty body in a batch only
	r.send(in, 0, sent[2].body, sent[2].properties)
	wants := map[string]map[string]string{
		string(every): {"KEYS": "k1 k2", "TAGS": "paid", "__SHARDINGKEY": "customer 7", "SHARDING_KEY": "customer 7", "trace": "ü-1", "B": "2"},
		"":            {"KEYS": "", "only": "headers"},
		"waited":      {"KEYS": "", "x": "y"},
	}
	for _, got := range r.read(out, len(sent)) {
		want, ok := wants[string(got.body)]
		if !ok {
			t.Errorf("body %q", got.body)
			continue
		}
		delete(wants, string(got.body))
		checkDelivered(t, got, want)
	}
	for _, m := range r.store.Await(t, len(sent)) {
		if m.Delay != 0 && m.Delay != 1500*time.Millisecond {
			t.Errorf("%q parked for %s", m.Body, m.Delay)
		}
	}
	before := map[string]int64{}
	for _, s := range r.read(in, len(sent)) {
		before[string(s.body)] = s.stored
	}
	for _, got := range r.read(out, len(sent)) {
		body := string(got.body)
		if waited := got.stored - before[body]; body != "waited" && waited < 1500 {
			t.Errorf("%q delivered after %d ms", body, waited)
		}
	}
}

func checkDelivered(t *testing.T, got stored, want map[string]string) {
	t.Helper()
	name := core.Shorten(string(bytes.ToValidUTF8(got.body, nil)), 16)
	have := maps.Clone(got.property)
	id, deliverAt := have["delaybridge-id"], have["delaybridge-deliver-at"]
	if id == "" || have["delaybridge-attempt"] != "1" {
		t.Errorf("%q: delivered as %q", name, have)
	}
	keys := id
	if want["KEYS"] != "" {
		keys += " " + want["KEYS"]
	}
	want["KEYS"] = keys
	if due, err := time.Parse(core.TimeFormat, deliverAt); err != nil || got.stored < due.UnixMilli() {
		t.Errorf("%q: delivered at %d, due %s (%v)", name, got.stored, deliverAt, err)
	}
	// Ours, and those that the broker adds to every message.
	for _, ours := range []string{"delaybridge-id", "delaybridge-attempt", "delaybridge-deliver-at", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT"} {
		delete(have, ours)
	}
	if !maps.Equal(have, want) {
		t.Errorf("%q: properties %q, want %q", name, have, want)
	}
}
