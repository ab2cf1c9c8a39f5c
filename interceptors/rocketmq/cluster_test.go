package rocketmqsource

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
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
	c := newCluster(&settings{requestTimeout: 500 * time.Millisecond, dial: (&net.Dialer{}).DialContext}, func(int) {})
	address := listener.Addr().String()
	if _, err := c.ask(t.Context(), address, request{code: requestRoute}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer is %v", err)
	}
	if _, err := c.link(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		c.ask(impatient, address, request{code: requestRoute}, time.Hour)
		cancel()
	}
	if _, err := c.ask(t.Context(), address, request{code: requestRoute}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer is %v", err)
	}
	c.close()
	if _, err := c.ask(t.Context(), address, request{code: requestRoute}, 0); !errors.Is(err, errClosed) {
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

// TestDamagedFrames: what is no frame ends the connection, and costs no memory.
func TestDamagedFrames(t *testing.T) {
	for name, frame := range map[string]string{
		"huge": "\x7f\xff\xff\xff\x00\x00\x00\x02{}", "short": "\x00\x00\x00\x02\x00\x00\x00\x02{}", "header beyond": "\x00\x00\x00\x06\x00\x00\x00\x09{}",
		"other encoding": "\x00\x00\x00\x06\x01\x00\x00\x02{}", "no JSON": "\x00\x00\x00\x06\x00\x00\x00\x02{x", "cut off": "\x00\x00\x00\x20\x00\x00\x00\x02{}",
	} {
		ours, theirs := net.Pipe()
		l := newLink(ours, &settings{requestTimeout: time.Second}, func(int) {})
		go func() {
			theirs.Write([]byte(frame))
			theirs.Close()
		}()
		l.read()
		if !l.broken() || l.err == nil {
			t.Errorf("%s: %v", name, l.err)
		}
	}
}
