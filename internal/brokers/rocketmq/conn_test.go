package rocketmq

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestDamagedFrames: what is no frame ends the connection, and costs no memory.
func TestDamagedFrames(t *testing.T) {
	for name, frame := range map[string]string{
		"huge": "\x7f\xff\xff\xff\x00\x00\x00\x02{}", "short": "\x00\x00\x00\x02\x00\x00\x00\x02{}", "header beyond": "\x00\x00\x00\x06\x00\x00\x00\x09{}",
		"other encoding": "\x00\x00\x00\x06\x01\x00\x00\x02{}", "no JSON": "\x00\x00\x00\x06\x00\x00\x00\x02{x", "cut off": "\x00\x00\x00\x20\x00\x00\x00\x02{}",
	} {
		ours, theirs := net.Pipe()
		cluster := &Cluster{Timeout: time.Second, Dial: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
		c, err := cluster.Connect(t.Context(), "a:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs.Write([]byte(frame))
		theirs.Close()
		c.reading.Wait()
		if !c.Ended() || c.err == nil {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
