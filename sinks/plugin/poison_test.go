package plugin

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// TestMessageThatEndsThePlugin: it spends its attempts alone. Its neighbours arrive, by
// their second attempt at the latest, the plugin is not quarantined for it, and the log
// names it.
func TestMessageThatEndsThePlugin(t *testing.T) {
	e := openEvil(t, "crash-on-poison")
	const attempts, others = 8, 60
	d := &core.Dispatcher{Name: "out", Sink: e.Sink, Log: e.journal.log(), Timeout: slack,
		Retry: core.RetryPolicy{MaxAttempts: attempts, Initial: 10 * time.Millisecond, Max: 20 * time.Millisecond}}
	store := memstore.New(memstore.Config{Buckets: 4})
	in := core.NewBridge(store, core.Options{}, d).Interceptor
	messages := []*core.Message{{ID: "poison", Sink: "out", Topic: "poison"}}
	for n := range others {
		messages = append(messages, &core.Message{ID: fmt.Sprint("good", n), Sink: "out", Topic: "t"})
	}
	for _, r := range in.Accept(t.Context(), messages...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Serve(ctx, "out", d.Run) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	poll.Until(t, slack, "the message is a dead letter, and the others have arrived", func() bool {
		entry, err := in.Get(t.Context(), core.Ref{ID: "poison"})
		return err == nil && entry.State == core.Dead && d.Totals().Delivered == others
	})
	poll.Until(t, slack, "the plugin is running again", func() bool { return e.details()["state"] == stateRunning })
	if n, _ := strconv.Atoi(e.details()["restarts"]); n < 2 || n > attempts {
		t.Errorf("the plugin ended %d times, want 2 to %d: %v", n, attempts, e.journal.with(t, "delivery failed, will be retried"))
	}
	recorded, err := os.ReadFile(e.record)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(recorded)) {
		id, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if attempt, _ := strconv.Atoi(text); attempt > 2 {
			t.Errorf("%s was delivered at attempt %d", id, attempt)
		}
	}
	if logged := e.journal.String(); !strings.Contains(logged, "one at a time") || !strings.Contains(logged, "poison") {
		t.Errorf("the log does not name the suspects:\n%s", core.Shorten(logged, 2000))
	}
}
