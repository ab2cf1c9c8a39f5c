package memstore

import "time"

// Times are kept in whole milliseconds. Now is rounded down where it decides what
// is due, and up where a delay is added to it, so that nothing is early.

func down(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func up(t time.Time) time.Time { return down(t.Add(time.Millisecond - 1)) }

// resolve returns the due time that a caller means by at or, where at is zero,
// by after from now. A time that has passed becomes now.
func resolve(at time.Time, after time.Duration, now time.Time) time.Time {
	due := down(now)
	if at.IsZero() && after > 0 {
		at = up(now).Add(after)
	}
	if at = up(at); at.After(due) {
		return at
	}
	return due
}

// resolveExpiry is resolve for a time that may be missing, or in the past.
func resolveExpiry(at time.Time, ttl time.Duration, now time.Time) time.Time {
	if at.IsZero() && ttl > 0 {
		at = up(now).Add(ttl)
	}
	if at.IsZero() {
		return at
	}
	return up(at)
}
