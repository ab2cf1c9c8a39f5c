package rocketmqsource

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// TestSilence: a connection that gives no answer in time is not used again; one
// whose caller did not wait for it is.
func TestSilence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 4)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	p := newPool(&rocketmq.Cluster{Timeout: 500 * time.Millisecond, Dial: (&net.Dialer{}).DialContext}, nil)
	address := listener.Addr().String()
	if _, err := p.ask(t.Context(), address, rocketmq.Command{Code: rocketmq.RequestRoute}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer is %v", err)
	}
	if _, err := p.conn(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		p.ask(impatient, address, rocketmq.Command{Code: rocketmq.RequestRoute}, time.Hour)
		cancel()
	}
	if _, err := p.ask(t.Context(), address, rocketmq.Command{Code: rocketmq.RequestRoute}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer is %v", err)
	}
	p.close()
	if _, err := p.ask(t.Context(), address, rocketmq.Command{Code: rocketmq.RequestRoute}, 0); !errors.Is(err, rocketmq.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	listener.Close()
	count := 0
	for conn := range accepted {
		conn.Close()
		count++
	}
	if count != 2 {
		t.Errorf("%d connections, want one for each that was found silent", count)
	}
}
