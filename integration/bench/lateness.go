package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// arrivals is what a consumer sees of messages by its own clock, which is not
// what the engine counts: how long after their due times they came, and, where
// the body has it, how long after the producer's call plus the delay.
type arrivals struct {
	mu          sync.Mutex
	late, asked []time.Duration
}

func (a *arrivals) note(now time.Time, batch []*core.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range batch {
		a.late = append(a.late, now.Sub(m.DeliverAt))
		if asked := askedOf(m.Body); !asked.IsZero() {
			a.asked = append(a.asked, now.Sub(asked))
		}
	}
}

// askedBody is a body that tells when the producer wants it to arrive.
func askedBody(asked time.Time) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, bodySize), uint64(asked.UnixNano()))[:bodySize]
}

func askedOf(body []byte) (asked time.Time) {
	if len(body) < 8 {
		return asked
	}
	if ns := int64(binary.BigEndian.Uint64(body)); ns != 0 {
		asked = time.Unix(0, ns)
	}
	return asked
}

// quantile sorts d and returns the smallest that the share q of d does not exceed.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

const (
	latenessRounds = 3
	latenessSpan   = 10 * time.Second // of each round
)

// measureLateness: a thousand messages a second, with a million others parked.
// It goes to and fro between the bridge and beanstalkd, so that what else the
// machine does meanwhile meets both.
func measureLateness(ctx context.Context, b *bench) (err error) {
	br, err := b.openBridge(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, br.stop()) }()
	if err := br.fill(ctx, million, bodySize, in(24*time.Hour)); err != nil {
		return err
	}
	peer, err := startBeanstalkd(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		b.table.row("beanstalkd is not installed, so nothing stands beside lateness (Debian: apt-get install beanstalkd)", "", "", "", "")
	} else if err != nil {
		return err
	} else {
		defer peer.stop()
		if err := peer.fill(ctx, million, 24*time.Hour); err != nil {
			return err
		}
	}
	var ours, theirs arrivals
	for range latenessRounds {
		if err := lateness(ctx, br, latenessSpan, &ours); err != nil {
			return err
		}
		if peer == nil {
			continue
		}
		if err := peer.lateness(ctx, latenessSpan, &theirs); err != nil {
			return fmt.Errorf("beanstalkd: %w", err)
		}
	}
	what := "lateness at 1,000/s for 30 s, 1 M others parked, as a consumer sees it"
	b.table.lateness(what, ours.late, theirs.late, [...]string{"≤ 0.5 ms", "≤ 2 ms", ""})
	b.table.lateness("… from the producer's call plus the delay, so with the accept and its rounding up to a millisecond",
		ours.asked, theirs.asked, [...]string{"", "", ""})
	return nil
}

// lateness prints quantiles, beside those of beanstalkd unless it has none.
func (t *table) lateness(what string, ours, theirs []time.Duration, aims [3]string) {
	if len(theirs) > 0 {
		what += "; beside it: beanstalkd in memory"
	}
	for n, r := range []struct {
		name string
		q    float64
	}{{what + ", p50", 0.50}, {"… p99", 0.99}, {"… max", 1}} {
		if len(theirs) == 0 {
			t.row(r.name, millis(quantile(ours, r.q)), "", "", aims[n])
			continue
		}
		t.durations(r.name, quantile(ours, r.q), quantile(theirs, r.q), aims[n])
	}
}

const latenessEvery = time.Millisecond

// latenessDelay spreads the delays over whole seconds, as beanstalkd knows no others.
func latenessDelay(n int) time.Duration { return time.Duration(1+n%3) * time.Second }

// lateness accepts a thousand messages a second, each due after one to three
// seconds, and waits for all.
func lateness(ctx context.Context, br *bridge, span time.Duration, seen *arrivals) error {
	n := int(span / latenessEvery)
	br.sink.expect(n)
	br.sink.seen = seen.note
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * latenessEvery)))
		delay := latenessDelay(i)
		if r := br.in.Accept(ctx, message(askedBody(time.Now().Add(delay)), in(delay)))[0]; r.Err != nil {
			return r.Err
		}
	}
	select {
	case <-br.sink.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
