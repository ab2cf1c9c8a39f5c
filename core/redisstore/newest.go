//go:build !failpoints

package redisstore

// newestFormat is the newest format that this version reads and writes; with the tag
// failpoints a test can have it know another one.
func newestFormat() int { return recordFormat }
