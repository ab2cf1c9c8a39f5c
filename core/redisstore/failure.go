package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// failure is an entry of the attempts hash: what went wrong with a message, and
// when it was to be delivered before retries moved it.
type failure struct {
	attempts  int
	deliverAt time.Time
	reason    string
	text      string
}

// String is the stored form: "attempts deliver_at reason\ntext".
func (f failure) String() string {
	return fmt.Sprintf("%d %d %s\n%s", f.attempts, f.deliverAt.UnixMilli(), f.reason, core.Shorten(f.text, core.MaxErrorText))
}

// parseFailure reads the stored form; an empty one is no failure yet, and the
// message is due when it was to be delivered.
func parseFailure(s string, due time.Time) failure {
	f := failure{deliverAt: due}
	line, text, _ := strings.Cut(s, "\n")
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 3 {
		return f
	}
	attempts, err1 := strconv.Atoi(parts[0])
	ms, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return f
	}
	return failure{attempts: attempts, deliverAt: time.UnixMilli(ms), reason: parts[2], text: text}
}

const (
	reasonExpired = "expired" // as core gives it with core.Expired
	reasonCrashed = "crashed" // as own.lua writes it
)

// state tells the state of a stored message from where it lies and how it failed.
func (f failure) state(place string) core.State {
	switch place {
	case "delivering":
		return core.Delivering
	case "delivered":
		return core.Delivered
	case "cancelled":
		return core.Cancelled
	case "discarded":
		return core.Discarded
	case "dead":
		if f.reason == reasonExpired {
			return core.Expired
		}
		return core.Dead
	}
	if f.reason != "" || f.attempts > 0 {
		return core.Retrying
	}
	return core.Scheduled
}
