package listener

import (
	"log/slog"
	"sync/atomic"
)

// Readiness logs why messages can't be accepted, which is not shown to callers without
// a token. The zero value is ready to use.
type Readiness struct{ unready atomic.Bool }

// Note logs the first of successive errors, and when they have ended. It is safe for
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
