package sinktest

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Wire is a proxy between a sink and its target on loopback that injects faults. It
// listens on a separate address for each target, so that it can be used with sinks that
// accept an address and with sinks that accept a dial function. It is safe for
// concurrent use.
type Wire struct {
	mu      sync.Mutex
	changed *sync.Cond
	addrs   map[string]string // target to where we listen
	closers []net.Listener
	links   map[*link]bool
	down    bool
	stalled bool
	deaf    bool // replies are lost
	closed  bool
}

// link is one forwarded connection.
type link struct {
	near, far net.Conn
	damaged   bool // bytes are missing
}

// NewWire returns a Wire that is closed at the end of t.
func NewWire(t testing.TB) *Wire {
	w := &Wire{addrs: map[string]string{}, links: map[*link]bool{}}
	w.changed = sync.NewCond(&w.mu)
	t.Cleanup(w.close)
	return w
}

// Addr returns the address at which the wire forwards to target (host:port).
func (w *Wire) Addr(t testing.TB, target string) string {
	t.Helper()
	addr, err := w.listen(target)
	if err != nil {
		t.Fatalf("listen for %s: %v", target, err)
	}
	return addr
}

// Dial is a dial function through the wire.
func (w *Wire) Dial(ctx context.Context, network, target string) (net.Conn, error) {
	addr, err := w.listen(target)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (w *Wire) listen(target string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if addr, ok := w.addrs[target]; ok {
		return addr, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	w.addrs[target] = listener.Addr().String()
	w.closers = append(w.closers, listener)
	go w.serve(listener, target)
	return w.addrs[target], nil
}

func (w *Wire) serve(listener net.Listener, target string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go w.forward(near, target)
	}
}

// forward carries one connection until either side ends it.
func (w *Wire) forward(near net.Conn, target string) {
	far, err := net.Dial("tcp", target)
	if err != nil {
		reset(near)
		return
	}
	l := &link{near: near, far: far}
	if !w.admit(l) {
		reset(near)
		reset(far)
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { w.pump(l, far, near, false) })
	pumps.Go(func() { w.pump(l, near, far, true) })
	pumps.Wait()
}

// admit adds a link, unless the target is to seem down.
func (w *Wire) admit(l *link) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.closed {
		return false
	}
	w.links[l] = true
	return true
}

// reset closes c the hard way.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is being torn down in any case
	}
	c.Close()
}

// pump carries bytes one way; reply reports that they come from the target.
func (w *Wire) pump(l *link, to, from net.Conn, reply bool) {
	defer w.cut(l)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !w.pass(l, reply) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pass waits while the wire is stalled and reports whether to pass the bytes on.
func (w *Wire) pass(l *link, reply bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.stalled && w.links[l] {
		w.changed.Wait()
	}
	if reply && w.deaf {
		l.damaged = true
	}
	return !l.damaged || !reply
}

func (w *Wire) cut(links ...*link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range links {
		delete(w.links, l)
		reset(l.near)
		reset(l.far)
	}
	w.changed.Broadcast()
}

// cutThose cuts the links that the condition holds for.
func (w *Wire) cutThose(condition func(*link) bool) {
	w.mu.Lock()
	var links []*link
	for l := range w.links {
		if condition(l) {
			links = append(links, l)
		}
	}
	w.mu.Unlock()
	w.cut(links...)
}

func (w *Wire) close() {
	w.mu.Lock()
	w.closed, w.stalled = true, false
	for _, listener := range w.closers {
		listener.Close()
	}
	w.mu.Unlock()
	w.cutThose(anyLink)
}

func anyLink(*link) bool     { return true }
func damaged(l *link) bool   { return l.damaged }
func (w *Wire) cutNow()      { w.cutThose(anyLink) }
func (w *Wire) set(f func()) { w.mu.Lock(); f(); w.changed.Broadcast(); w.mu.Unlock() }

// Faults returns the faults that the wire can inject: all but Restart and StallTopic.
func (w *Wire) Faults() Faults {
	return Faults{
		Down: func(testing.TB) func() {
			w.set(func() { w.down = true })
			w.cutNow()
			return func() { w.set(func() { w.down = false }) }
		},
		Stall: func(testing.TB) func() {
			w.set(func() { w.stalled = true })
			return func() { w.set(func() { w.stalled = false }) }
		},
		LoseReplies: func(testing.TB) func() {
			w.set(func() { w.deaf = true })
			return func() {
				w.set(func() { w.deaf = false })
				w.cutThose(damaged)
			}
		},
		Cut: func(testing.TB) { w.cutNow() },
	}
}
