//go:build unix

package servers_test

import (
	"net"
	"testing"
	"time"
)

// within fails the test if what does not come to hold in time.
func within(t *testing.T, timeout time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", timeout, what)
		}
	}
}

func answers(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
