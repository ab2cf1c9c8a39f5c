package core

import (
	"errors"
	"testing"
	"time"
)

// TestCostOfAttempts holds the list in attempts.go.
func TestCostOfAttempts(t *testing.T) {
	err := errors.New("no")
	for _, c := range []struct {
		name         string
		err          error
		attempt, max int
		state        State
		spent        int
	}{
		{"failed", err, 1, 3, Retrying, 1},
		{"failed in the last", err, 3, 3, Dead, 3},
		{"unknown in the last", Classify(Unknown, err), 3, 3, Dead, 3},
		{"permanent", Classify(Permanent, err), 1, 3, Dead, 1},
		{"topic blocked in the last", Classify(TopicBlocked, err), 3, 3, Retrying, 2},
		{"blamed", blamed{err, false}, 2, 3, Retrying, 2},
		{"blamed in the last", blamed{err, false}, 3, 3, Retrying, 2},
		{"blamed in the only one", blamed{err, false}, 1, 1, Retrying, 0},
		{"blamed again in the last", blamed{err, true}, 3, 3, Dead, 3},
		{"uncertain", uncertain{err}, 1, 3, Retrying, 1},
		{"uncertain in the last", uncertain{err}, 3, 3, Retrying, 2},
		{"uncertain in the only one", uncertain{err}, 1, 1, Retrying, 1},
		{"uncertain after the only one", uncertain{err}, 2, 1, Retrying, 1},
	} {
		l := &bucketLoop{Dispatcher: &Dispatcher{Retry: RetryPolicy{MaxAttempts: c.max}}}
		o := l.failed(&Message{ID: "m", Attempt: c.attempt}, c.err, time.Now())
		if o.State != c.state || o.Attempts != c.spent || (o.After > 0) != (c.state == Retrying) {
			t.Errorf("%s: got %+v, want %s with %d spent", c.name, o, c.state, c.spent)
		}
	}
	now := time.Now()
	for _, c := range []struct {
		name  string
		m     Message
		max   int
		state State
		spent int
	}{
		{"expired", Message{Attempt: 2, ExpiresAt: now}, 3, Expired, 1},
		{"expires", Message{Attempt: 2, ExpiresAt: now.Add(1)}, 3, "", 0},
		{"cut off", Message{Attempt: 3, CutOff: true}, 3, "", 0},
		{"cut off in the last", Message{Attempt: 4, CutOff: true}, 3, Dead, 3},
		{"cut off in the only one", Message{Attempt: 2, CutOff: true}, 1, "", 0},
		{"cut off after the only one", Message{Attempt: 3, CutOff: true}, 1, Dead, 2},
		{"beyond the last, not cut off", Message{Attempt: 9}, 3, "", 0},
	} {
		l := &bucketLoop{Dispatcher: &Dispatcher{Retry: RetryPolicy{MaxAttempts: c.max}}}
		if o, over := l.over(&c.m, now); over != (c.state != "") || o.State != c.state || o.Attempts != c.spent {
			t.Errorf("%s: got %+v, want %q with %d spent", c.name, o, c.state, c.spent)
		}
	}
}
