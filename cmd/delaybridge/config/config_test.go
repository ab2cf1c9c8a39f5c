package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func TestGoodConfig(t *testing.T) {
	c, err := decode(lines(
		"store:",
		"  redis: {url: 'rediss://me:p%40ss@cache:6380/3', prefix: \"${PREFIX}\", password: \"${NONE:-}\"}",
		"  dedupe_window: 5d1d12h",
		"limits: {max_body: 1MiB, max_batch: \"${N}\"}",
		"retry: {initial: 2s, jitter: 0}",
		"sinks:",
		"  orders:",
		"    type: kafka",
		"    dedupe_window: 0s",
		"    retry: {max: 10m, jitter: 0.5}",
		"    config: {brokers: [\"k1:9092\", \"${K2}\"], acks: -1, sasl: {password: \"pa$$${PW}\"}, tls: true, none: null, ratio: 1.5e3}",
		"  audit: {type: console}",
	), "PREFIX", "bridge", "K2", "k2:9092", "PW", "12345", "N", "7")
	if err != nil {
		t.Fatal(err)
	}
	redis := Redis{Addrs: []string{"cache:6380"}, Username: "me", Password: "p@ss", DB: 3, TLS: TLS{Enabled: true}, Prefix: "bridge"}
	c.Store.Redis.url = ""
	if diff := cmp.Diff(redis, c.Store.Redis, cmp.AllowUnexported(Redis{})); diff != "" {
		t.Errorf("redis: -want +got\n%s", diff)
	}
	if want := 6*24*time.Hour + 12*time.Hour; c.Store.DedupeWindow != want {
		t.Errorf("dedupe_window is %s, want %s", c.Store.DedupeWindow, want)
	}
	sinks := []Sink{
		{Name: "orders", Type: "kafka", Timeout: 10 * time.Second, MaxBatch: 500, hasDedupeWindow: true,
			Retry:  core.RetryPolicy{Initial: 2 * time.Second, Max: 10 * time.Minute, Multiplier: 2, Jitter: 0.5, MaxAttempts: 16},
			Config: []byte(`{"brokers":["k1:9092","k2:9092"],"acks":-1,"sasl":{"password":"pa$12345"},"tls":true,"none":null,"ratio":1.5e3}`)},
		{Name: "audit", Type: "console", Timeout: 10 * time.Second, MaxBatch: 500, DedupeWindow: 6*24*time.Hour + 12*time.Hour,
			Retry:  core.RetryPolicy{Initial: 2 * time.Second, Max: 5 * time.Minute, Multiplier: 2, Jitter: -1, MaxAttempts: 16},
			Config: []byte(`{}`)},
	}
	if diff := cmp.Diff(sinks, c.Sinks, cmp.AllowUnexported(Sink{})); diff != "" {
		t.Errorf("sinks: -want +got\n%s", diff)
	}
}

func TestWindowsLineEndsAndByteOrderMark(t *testing.T) {
	if _, err := decode("\uFEFF" + strings.ReplaceAll(good, "\n", "\r\n")); err != nil {
		t.Error(err)
	}
}

// TestDefaultsAreCores holds the defaults of the table against those that core
// itself uses for a zero field.
func TestDefaultsAreCores(t *testing.T) {
	c, err := decode(good)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(core.NewBridge(nil, core.Options{}).Limits(), c.Limits.Limits); diff != "" {
		t.Errorf("limits: -core +config\n%s", diff)
	}
}
