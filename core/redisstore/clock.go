//go:build !failpoints

package redisstore

// shiftClock does nothing here; with the tag failpoints a test can have the
// scripts read another clock than Redis's.
func shiftClock(source string) string { return source }
