package source

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

const (
	defaultLinger = 5 * time.Second
	firstPause    = 20 * time.Millisecond
	longestPause  = 5 * time.Second
	logEvery      = time.Minute // while trouble lasts
)

// lingering returns a context that ends Linger after ctx has ended.
func (p *Parker) lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	linger := p.Linger
	if linger == 0 {
		linger = defaultLinger
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(linger, cancel) })
	return work, func() { stop(); cancel() }
}

// repeat calls try until it returns nil, or ctx ends, whose cause it returns.
func (p *Parker) repeat(ctx context.Context, what string, try func() error) error {
	begin := time.Now()
	var logged time.Time
	defer p.over(p)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := try()
		if err == nil {
			break
		}
		p.totals.retried.Add(1)
		p.note(p, what, err)
		if now := time.Now(); now.Sub(logged) > logEvery {
			logged = now
			p.log().Warn("source is held up, its source waits", "source", p.Name, "at", what, "err", core.Shorten(err.Error(), core.MaxErrorText))
		}
		if !sleep(ctx, pause/2+rand.N(pause/2)) {
			return context.Cause(ctx)
		}
	}
	if !logged.IsZero() {
		p.log().Info("source goes on", "source", p.Name, "at", what, "held_up_for", time.Since(begin).Round(time.Millisecond))
	}
	return nil
}

// sleep reports whether the time is over rather than ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// logRejected names the first of them: a flood of bad records is no flood of lines.
func (p *Parker) logRejected(items []Item, rejected []Rejection, at func(int) string) {
	first := rejected[0]
	p.log().Warn("records rejected", "source", p.Name, "records", len(rejected), "at", at(first.Index),
		"message_id", core.Shorten(items[first.Index].id(), core.MaxIDLen), "err", core.Shorten(first.Reason.Error(), core.MaxErrorText))
}

func (p *Parker) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log
}
