package intake

import (
	"log/slog"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Troubles tells the log of what does not work, once a minute while it lasts.
// It is for one goroutine.
type Troubles struct {
	Log *slog.Logger

	since  time.Time // zero: all is well
	logged time.Time
}

// Report notes that what was tried has failed, and will be tried again.
func (t *Troubles) Report(what string, err error) {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.logged) > logEvery {
		t.logged = now
		t.Log.Warn("intake in trouble, it tries on", "what", what, "err", core.Shorten(err.Error(), core.MaxErrorText))
	}
}

// Over notes that it works.
func (t *Troubles) Over() {
	if !t.since.IsZero() {
		t.Log.Info("intake goes on", "held_up_for", time.Since(t.since).Round(time.Millisecond))
		t.since, t.logged = time.Time{}, time.Time{}
	}
}
