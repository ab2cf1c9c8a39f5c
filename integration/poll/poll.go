// Package poll is how tests wait for what only asking can tell.
package poll

import "time"

const every = 10 * time.Millisecond

// TB is what the package needs of testing.TB.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until polls until holds does, and fails the test if that takes longer than limit.
func Until(t TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	if !Holds(limit, holds) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// Holds polls until holds does, for limit at the longest, and tells whether it did.
func Holds(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(every) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Succeeds calls try until it returns nil, for limit at the longest, and returns its
// last error.
func Succeeds(limit time.Duration, try func() error) (err error) {
	Holds(limit, func() bool { err = try(); return err == nil })
	return err
}
