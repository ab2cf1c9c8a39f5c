package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// reachSides is a transport that reaches the bridges on both sides, also when
// the sides don't reach each other: a connection belongs to the namespace in
// which it was dialled.
func (r *run) reachSides() http.RoundTripper {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		for _, s := range r.sides {
			if s.host == host {
				return s.dial(ctx, network, addr)
			}
		}
		return nil, fmt.Errorf("%s is on neither side", addr)
	}
	return &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dial}
}

// dial moves a thread into the namespace. It is not used for anything else
// afterwards: the goroutine ends without unlocking it.
func (s *side) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		var file *os.File
		if file, err = os.Open("/run/netns/" + s.name); err != nil {
			return
		}
		defer file.Close()
		if err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		conn, err = (&net.Dialer{Timeout: time.Second, FallbackDelay: -1}).DialContext(ctx, network, addr)
	}()
	<-over
	return conn, err
}
