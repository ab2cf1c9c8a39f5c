package kafka

import (
	"net"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// TestConnectedAsTheSinkEnds: a connection that is ready just when the sink ends
// is closed, and nothing that it needs for that is missing yet. The race detector
// is part of the test.
func TestConnectedAsTheSinkEnds(t *testing.T) {
	for range 200 {
		c := newClient(settings{})
		ours, theirs := net.Pipe()
		made := newConn(&kafkaconn.Conn{Raw: ours, Stream: protocol.NewConn(ours, "")}, 1)
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
