package listener

import (
	"log/slog"
	"sync/atomic"
)

// Readiness logs what stands in the way of accepting, which strangers are not
// told. The zero value is ready.
type Readiness struct{ unready atomic.Bool }

// Note logs the first of several errors, and that they have ended. Safe for
// concurrent use.
func (r *Readiness) Note(log *slog.Logger, err error) {
	switch unready := err != nil; {
	case r.unready.Swap(unready) == unready:
	case unready:
		log.Warn("not ready", "err", err)
	default:
		log.Info("ready again")
	}
}
