package amqpdoor

import (
	"log/slog"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

const logEvery = time.Minute

// troubles tells the log of what does not work, once a minute while it lasts.
// It is for one goroutine.
type troubles struct {
	log    *slog.Logger
	since  time.Time // zero: all is well
	logged time.Time
}

func (t *troubles) report(what string, err error) {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.logged) > logEvery {
		t.logged = now
		t.log.Warn("intake in trouble, it tries on", "what", what, "err", core.Shorten(err.Error(), core.MaxErrorText))
	}
}

func (t *troubles) over() {
	if t.since.IsZero() {
		t.log.Info("intake reads")
		return
	}
	t.log.Info("intake goes on", "held_up_for", time.Since(t.since).Round(time.Millisecond))
	t.since = time.Time{}
}
