//go:build unix

package main

import (
	"net"
	"time"
)

// roughness is what a bad link does to what passes.
type roughness struct {
	delay, jitter time.Duration // of replies; less or more than the delay by up to jitter
	resets        float64       // share of pieces at which the connection is reset
	slices        float64       // share of pieces that come byte by byte
}

// roughen has all connections from now on be like that; nil: as usual.
func (p *proxy) roughen(rough *roughness) {
	p.mu.Lock()
	p.rough = rough
	p.mu.Unlock()
	p.dropAll()
}

// redirect has all connections from now on lead to another server.
func (p *proxy) redirect(upstream string) {
	p.mu.Lock()
	p.upstream = upstream
	p.mu.Unlock()
	p.dropAll()
}

// way is where a new connection leads, and how.
func (p *proxy) way() (upstream string, rough *roughness, late *lateness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upstream, p.rough, p.late
}

// piece is what was read at once, and when it is to be passed on.
type piece struct {
	bytes []byte
	at    time.Time
	reset bool
}

const (
	mostUnderWay = 1024 // pieces
	mostSliced   = 2 << 10
)

// join passes on in both directions; only replies are late.
func (p *proxy) join(client, server net.Conn, rough roughness) {
	requests := rough
	requests.delay, requests.jitter = 0, 0
	p.group.Go(func() { defer p.drop(client, server); p.roughly(server, client, requests) })
	p.group.Go(func() { defer p.drop(client, server); p.roughly(client, server, rough) })
}

// roughly passes on what comes from one end to the other as a bad link does, in
// order, until either is closed.
func (p *proxy) roughly(to, from net.Conn, rough roughness) {
	pieces, over := make(chan piece, mostUnderWay), make(chan struct{})
	p.group.Go(func() {
		defer close(pieces)
		last := time.Time{}
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			last = latest(last, time.Now().Add(rough.delay+p.jitter(rough.jitter)))
			select {
			case pieces <- piece{buffer[:n], last, p.throw(rough.resets)}:
			case <-over:
				return
			}
		}
	})
	defer close(over)
	for one := range pieces {
		time.Sleep(time.Until(one.at))
		if one.reset {
			p.reset(to, from)
			return
		}
		if !p.pass(to, one.bytes, rough.slices) {
			return
		}
	}
}

// pass writes a piece, perhaps the first of it byte by byte.
func (p *proxy) pass(to net.Conn, bytes []byte, slices float64) bool {
	if p.throw(slices) {
		p.count(&p.sliced)
		first := bytes[:min(mostSliced, len(bytes))]
		for n := range first {
			if _, err := to.Write(first[n : n+1]); err != nil {
				return false
			}
		}
		bytes = bytes[len(first):]
	}
	_, err := to.Write(bytes)
	return err == nil
}

// reset ends both connections with RST.
func (p *proxy) reset(conns ...net.Conn) {
	p.count(&p.resets)
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	p.drop(conns...)
}

func (p *proxy) throw(share float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return share > 0 && p.dice.Float64() < share
}

func (p *proxy) jitter(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most == 0 {
		return 0
	}
	return time.Duration(p.dice.Int64N(int64(2*most))) - most
}

func (p *proxy) count(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

func (p *proxy) counted(n *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *n
}
