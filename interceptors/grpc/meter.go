package grpclistener

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/delaybridge/delaybridge/internal/listener"
)

// The library reads a request whole before it asks anybody, so what the requests of
// all calls take together is counted where they arrive: on the connection, behind
// TLS. A request counts from its first byte until it is answered.

const (
	// perMessage is what a request counts for besides its bytes.
	perMessage = 64
	// maxRatio is how many times larger gzip can make something.
	maxRatio = 1032
	// leastHeld is what a connection may hold whatever the others do.
	leastHeld = 64 << 10
	lookAgain = 10 * time.Millisecond
)

// traffic is what all connections hold together.
type traffic struct {
	budget     *listener.Budget
	most       int64
	compressed int // bytes that a compressed request counts for at most
	// patience is how long too much may be held before those are ended whose requests
	// are not whole.
	patience time.Duration

	began      time.Time
	spentSince atomic.Int64 // after began; 0: there is room

	mu   sync.Mutex
	open map[*meter]struct{}
}

func newTraffic(config Config) *traffic {
	return &traffic{budget: listener.NewBudget(config.MaxUnansweredBytes), most: config.MaxUnansweredBytes, compressed: config.MaxBatchBytes, patience: 2 * time.Second,
		began: time.Now(), open: make(map[*meter]struct{})}
}

// isSpent reports whether no more is to be taken, and looks after it if that has lasted.
func (t *traffic) isSpent() bool {
	if !t.budget.Spent() {
		return false
	}
	now := int64(time.Since(t.began))
	if since := t.spentSince.Load(); since == 0 {
		t.spentSince.CompareAndSwap(0, now)
	} else if now-since > int64(t.patience) {
		t.makeRoom()
	}
	return true
}

// count adds to what is held, or takes off it.
func (t *traffic) count(n int) {
	if t.budget.Take(n) {
		t.spentSince.Store(0)
	}
}

// makeRoom ends the connection that holds most of what is not whole, as that may never
// be, if it is this that takes the room. What is whole is answered soon.
func (t *traffic) makeRoom() {
	var largest *meter
	var most, all int64
	t.mu.Lock()
	for m := range t.open {
		coming := m.coming.Load()
		all += coming
		if coming > most {
			largest, most = m, coming
		}
	}
	t.mu.Unlock()
	if largest != nil && all >= t.most/2 {
		largest.Close()
	}
}

// meter is a connection that counts what it holds.
type meter struct {
	net.Conn
	traffic *traffic
	held    atomic.Int64 // bytes of requests
	coming  atomic.Int64 // of these, of requests that are not whole

	mu     sync.Mutex
	in     frames
	out    frames
	calls  map[uint32]*call
	closed bool
}

// call is a stream of HTTP/2.
type call struct {
	in, out messages
	coming  int   // what the request counts for that is not whole yet
	waiting []int // the same of those that are whole and have no answer
}

func newMeter(conn net.Conn, t *traffic) *meter {
	m := &meter{Conn: conn, traffic: t, in: frames{skip: prefaceLen}, calls: make(map[uint32]*call)}
	t.mu.Lock()
	t.open[m] = struct{}{}
	t.mu.Unlock()
	return m
}

// Read implements net.Conn. Where all hold too much together, it does not read on, so
// that the client has to wait, until others have been answered or are ended.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.received(p[:n])
	for m.held.Load() >= leastHeld && m.traffic.isSpent() {
		time.Sleep(lookAgain)
	}
	return n, err
}

func (m *meter) received(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(p) > 0 {
		rest, began, data := m.in.step(p)
		p = rest
		id := m.in.stream()
		switch {
		case began && m.in.kind() == frameHeaders && m.calls[id] == nil && !m.closed:
			m.calls[id] = new(call)
		case began && m.in.kind() == frameReset:
			m.end(id)
		case len(data) > 0 && m.calls[id] != nil:
			m.asked(m.calls[id], data)
		}
	}
}

// asked counts a piece of the requests of a call.
func (m *meter) asked(c *call, p []byte) {
	for len(p) > 0 {
		rest, began, ended, n := c.in.step(p)
		p = rest
		if began {
			n += perMessage
			if c.in.compressed() {
				n += min(c.in.length(), m.traffic.compressed/maxRatio) * maxRatio
			}
		}
		c.coming += n
		m.coming.Add(int64(n))
		m.count(n)
		if ended {
			m.coming.Add(-int64(c.coming))
			c.waiting = append(c.waiting, c.coming)
			c.coming = 0
		}
	}
}

// Write implements net.Conn.
func (m *meter) Write(p []byte) (int, error) {
	m.sent(p)
	return m.Conn.Write(p)
}

func (m *meter) sent(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(p) > 0 {
		rest, began, data := m.out.step(p)
		p = rest
		id := m.out.stream()
		switch {
		case began && (m.out.kind() == frameReset || m.out.kind() == frameHeaders && m.out.ends()):
			m.end(id)
		case len(data) > 0 && m.calls[id] != nil:
			m.answered(m.calls[id], data)
		}
	}
}

// answered takes off a request for each answer.
func (m *meter) answered(c *call, p []byte) {
	for len(p) > 0 {
		rest, _, ended, _ := c.out.step(p)
		p = rest
		if ended && len(c.waiting) > 0 {
			m.count(-c.waiting[0])
			c.waiting = c.waiting[1:]
		}
	}
}

// end takes off all that a call holds.
func (m *meter) end(id uint32) {
	c := m.calls[id]
	if c == nil {
		return
	}
	m.coming.Add(-int64(c.coming))
	n := c.coming
	for _, one := range c.waiting {
		n += one
	}
	m.count(-n)
	delete(m.calls, id)
}

func (m *meter) count(n int) {
	m.held.Add(int64(n))
	m.traffic.count(n)
}

// Close implements net.Conn.
func (m *meter) Close() error {
	m.mu.Lock()
	m.closed = true
	for id := range m.calls {
		m.end(id)
	}
	m.mu.Unlock()
	m.traffic.mu.Lock()
	delete(m.traffic.open, m)
	m.traffic.mu.Unlock()
	return m.Conn.Close()
}

// metered are the credentials of a server whose connections are counted. The
// library asks credentials for the connection to read from.
type metered struct {
	credentials.TransportCredentials
	traffic *traffic
}

// peerInfo is what a call knows of its connection.
type peerInfo struct {
	credentials.AuthInfo
	conn *listener.Conn // nil: not counted
}

// ServerHandshake implements credentials.TransportCredentials.
func (m metered) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := m.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return newMeter(conn, m.traffic), peerInfo{info, listener.ConnOf(raw)}, nil
}

// Clone implements credentials.TransportCredentials.
func (m metered) Clone() credentials.TransportCredentials {
	return metered{m.TransportCredentials.Clone(), m.traffic}
}
