package kafka

import (
	"net"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
)

// TestConnectedAsTheSinkEnds: a connection that is ready just when the sink ends
// is closed, and nothing that it needs for that is missing yet. The race detector
// is part of the test.
func TestConnectedAsTheSinkEnds(t *testing.T) {
	for range 200 {
		c := newClient(settings{idleTimeout: 1})
		ours, theirs := net.Pipe()
		made := &conn{raw: ours, stream: protocol.NewConn(ours, ""), awaited: make(chan exchange, 1), dead: make(chan struct{})}
		var ending sync.WaitGroup
		ending.Go(func() {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		})
		c.begin(made)
		ending.Wait()
		if _, err := theirs.Read(make([]byte, 1)); err == nil {
			t.Fatal("the connection is open")
		}
	}
}
