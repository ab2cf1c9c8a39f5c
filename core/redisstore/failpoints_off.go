//go:build !failpoints

package redisstore

// With the tag failpoints, tests of the whole program can have the scripts read another
// clock than Redis's, and this version know one more format. Here, they can't.

func shiftClock(source string) string { return source }

// newestFormat is the newest format that this version reads and writes.
func newestFormat() int { return recordFormat }
