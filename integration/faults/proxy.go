//go:build unix

package main

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// proxy stands between the bridges and Redis and can lose replies: what was asked
// has been done, and the connection ends before the answer is through.
type proxy struct {
	listener net.Listener
	group    sync.WaitGroup

	mu       sync.Mutex
	upstream string
	dice     *rand.Rand
	losses   float64 // share of replies that are lost
	lost     int
	open     map[net.Conn]bool
	rough    *roughness // nil: the link is good
	late     *lateness  // nil: no call is held up
	resets   int
	sliced   int
}

// startProxy starts one that ends with the run.
func (r *run) startProxy(upstream string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatalf("listen: %v", err)
	}
	p := &proxy{listener: listener, upstream: upstream, dice: rand.New(rand.NewPCG(r.seed, 29)), open: map[net.Conn]bool{}}
	p.group.Go(p.serve)
	r.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// lose sets the share of replies that are lost from now on.
func (p *proxy) lose(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = share
}

// losesNow throws the dice for one reply.
func (p *proxy) losesNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.losses == 0 || p.dice.Float64() >= p.losses {
		return false
	}
	p.lost++
	return true
}

func (p *proxy) lostSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		upstream, rough, late := p.way()
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			client.Close()
			continue
		}
		p.keep(client, server)
		if late != nil {
			p.joinLate(client, server, late)
			continue
		}
		if rough != nil {
			p.join(client, server, *rough)
			continue
		}
		p.group.Go(func() {
			_, _ = io.Copy(server, client) // its end is the end of both
			p.drop(client, server)
		})
		p.group.Go(func() {
			p.answer(client, server)
			p.drop(client, server)
		})
	}
}

// answer passes replies on until one is lost.
func (p *proxy) answer(client, server net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || p.losesNow() {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.open[c] = true
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.open, c)
	}
}

func (p *proxy) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.dropAll()
	p.group.Wait()
}
