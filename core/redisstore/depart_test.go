package redisstore

import (
	"context"
	"slices"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

// TestStoppedBeforeItOwnsAnythingStillLeaves: an instance that is told to stop
// while it owns no bucket must not stay among the living, or the buckets that
// fall to it are nobody's until its heartbeat is forgotten.
func TestStoppedBeforeItOwnsAnythingStillLeaves(t *testing.T) {
	config := freshConfig(t)
	config.Instance = "a"
	a := open(t, config)
	defer serve(t, a, newCollector(0), core.RetryPolicy{})()
	until(t, "a owns all", func() bool { return len(a.owned.owns("orders")) == 16 })

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := second(t, a, "b")
	if err := b.Serve(ctx, "orders", func(context.Context, core.Bucket) error { return nil }); err != nil {
		t.Fatal(err)
	}
	live, err := a.client.ZRange(t.Context(), a.keys.live("orders"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(live, "b") {
		t.Errorf("alive are %q, and b has stopped", live)
	}
}
