package source

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	defaultLinger = 5 * time.Second
	firstPause    = 20 * time.Millisecond
	longestPause  = 5 * time.Second
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
	trouble := Troubles{Of: p, Log: p.log().With("source", p.Name)}
	defer p.over(&trouble)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := try()
		if err == nil {
			trouble.Over()
			return nil
		}
		p.totals.retried.Add(1)
		trouble.Report(what, err)
		if !Sleep(ctx, pause/2+rand.N(pause/2)) {
			return context.Cause(ctx)
		}
	}
}

// Sleep waits for d or the end of ctx, and reports whether d is over.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
