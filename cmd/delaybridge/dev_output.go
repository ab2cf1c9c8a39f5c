package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// printBanner reports what runs and what to try. Output that fails is not worth
// ending for.
func (b *devBridge) printBanner(a *app, f devFlags) {
	store := "in memory, lost at exit"
	if f.redis != "" {
		store = "Redis, durability " + b.Durability()
	}
	url := "http://" + b.addr.String()
	fmt.Fprintf(a.stdout, "delaybridge %s, to try things out; not for production\n", buildVersion())
	fmt.Fprintf(a.stdout, "  store  %s\n", store)
	for _, sink := range b.sinks {
		what := ""
		if f.config == "" {
			what = ", prints each message below when it is due"
		}
		fmt.Fprintf(a.stdout, "  sink   %s%s\n", sink.Name, what)
	}
	fmt.Fprintf(a.stdout, "  http   %s\n", url)
	if b.moved != "" {
		fmt.Fprintf(a.stdout, "         (%s)\n", b.moved)
	}
	if b.grpc != nil {
		fmt.Fprintf(a.stdout, "  grpc   %s\n", b.grpcAddr)
	}
	fmt.Fprintf(a.stdout, "\nSend a message:\n  curl -H 'Content-Type: application/json' -d '{\"topic\":\"hello\",\"delay\":\"10s\",\"body\":\"hi\"}' %s/v1/messages\n\n", url)
	if !f.noSamples {
		fmt.Fprintf(a.stdout, "Three samples are due in 2, 5 and 10 seconds. ")
	}
	if f.length > 0 {
		fmt.Fprintf(a.stdout, "This ends by itself after %s.\n\n", f.length)
	} else {
		fmt.Fprintf(a.stdout, "Ctrl-C ends this.\n\n")
	}
}

// sampleDelays are those of the sample messages.
func sampleDelays() []time.Duration {
	return []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}
}

func (b *devBridge) sendSamples(ctx context.Context) error {
	var samples []*core.Message
	for n, delay := range sampleDelays() {
		body := fmt.Sprintf("sample %d, sent %s ago", n+1, delay)
		samples = append(samples, &core.Message{Sink: b.sinks[0].Name, Topic: "samples", Delay: delay, Body: []byte(body)})
	}
	for _, receipt := range b.Accept(ctx, samples...) {
		if receipt.Err != nil {
			return fmt.Errorf("send samples: %w", receipt.Err)
		}
	}
	return nil
}

// printTotals reports what has been done, and what is left behind.
func (b *devBridge) printTotals(a *app) {
	fmt.Fprintln(a.stdout)
	for _, work := range b.Local().Sinks {
		t, last, name := work.Totals, work.Last5m, ""
		if len(b.sinks) > 1 {
			name = work.Sink + ": "
		}
		fmt.Fprintf(a.stdout, "%saccepted %d, delivered %d, retried %d, dead %d\n", name, t.Accepted, t.Delivered, t.Retried, t.Dead+t.Expired)
		if last.LatenessMax > 0 { // something was delivered in the last minutes
			fmt.Fprintf(a.stdout, "%slateness p50 %s, p99 %s, max %s\n", name, millis(last.LatenessP50), millis(last.LatenessP99), millis(last.LatenessMax))
		}
	}
	if left := b.left(); left > 0 {
		fmt.Fprintf(a.stdout, "%d still parked, and lost now\n", left)
	}
}

// left is how many messages are lost with the store in memory.
func (b *devBridge) left() int {
	store, ok := b.store.(*memstore.Store)
	if !ok {
		return 0
	}
	names := make([]string, len(b.sinks))
	for n, sink := range b.sinks {
		names[n] = sink.Name
	}
	stats, err := store.Stats(context.Background(), names...)
	if err != nil {
		return 0
	}
	left := 0
	for _, s := range stats {
		left += s.Scheduled
	}
	return left
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
