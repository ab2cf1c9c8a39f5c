package rocketmqsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// pool is the connections to the name servers and brokers of a cluster, one
// to each address, and where its brokers are. Safe for concurrent use.
type pool struct {
	cluster *rocketmq.Cluster
	notice  func(code int) // is told of what brokers ask

	mu       sync.Mutex
	gateways map[string]*gateway // by address
	closed   bool

	brokersMu sync.RWMutex
	brokers   map[string]string // addresses by name
}

// gateway is the way to one address.
type gateway struct {
	mu     sync.Mutex // held while dialling
	conn   *rocketmq.Conn
	closed bool
	failed time.Time // the last dial
	err    error
}

// failureHolds is how long a failed dial answers for others.
const failureHolds = 200 * time.Millisecond

func newPool(c *rocketmq.Cluster, notice func(code int)) *pool {
	return &pool{cluster: c, notice: notice, gateways: make(map[string]*gateway), brokers: make(map[string]string)}
}

// close ends all connections and waits until nothing is at work any more.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	gateways := p.gateways
	p.mu.Unlock()
	for _, g := range gateways {
		g.mu.Lock()
		g.closed = true
		if g.conn != nil {
			g.conn.Close()
		}
		g.mu.Unlock()
	}
}

// ask makes a request to an address within the usual time, or patience more. A
// connection that gives no answer by then is ended, as nothing else may tell
// that it leads nowhere.
func (p *pool) ask(ctx context.Context, address string, request rocketmq.Command, patience time.Duration) (*rocketmq.Command, error) {
	bounded, cancel := context.WithTimeout(ctx, p.cluster.Timeout+patience)
	defer cancel()
	conn, err := p.conn(bounded, address)
	if err != nil {
		return nil, err
	}
	answer, err := conn.Ask(bounded, request)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		conn.Fail(err)
	}
	return answer, err
}

// askBroker is ask for a broker of that name. Any code but CodeOK is an error.
func (p *pool) askBroker(ctx context.Context, name string, request rocketmq.Command) (*rocketmq.Command, error) {
	address, err := p.addressOf(name)
	if err != nil {
		return nil, err
	}
	answer, err := p.ask(ctx, address, request, 0)
	if err == nil {
		err = answer.Err()
	}
	return answer, err
}

// route asks the name servers for a topic, and notes where the brokers are.
func (p *pool) route(ctx context.Context, topic string) (*rocketmq.Route, error) {
	ask := func(ctx context.Context, address string, request rocketmq.Command) (*rocketmq.Command, error) {
		return p.ask(ctx, address, request, 0)
	}
	found, err := p.cluster.Route(ctx, p.cluster.OnWire(topic), ask)
	if err == nil {
		p.note(found)
	}
	return found, err
}

func (p *pool) note(r *rocketmq.Route) {
	p.brokersMu.Lock()
	defer p.brokersMu.Unlock()
	maps.Copy(p.brokers, r.Addresses())
}

func (p *pool) addressOf(broker string) (string, error) {
	p.brokersMu.RLock()
	defer p.brokersMu.RUnlock()
	if address := p.brokers[broker]; address != "" {
		return address, nil
	}
	return "", fmt.Errorf("the name servers have no address of broker %s", broker)
}

func (p *pool) conn(ctx context.Context, address string) (*rocketmq.Conn, error) {
	g, err := p.gateway(address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, rocketmq.ErrClosed
	case g.conn != nil && !g.conn.Ended():
		return g.conn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case time.Since(g.failed) < failureHolds:
		return nil, g.err
	case g.conn != nil:
		g.conn.Close()
	}
	conn, err := p.cluster.Connect(ctx, address, p.notice)
	if err != nil {
		g.failed, g.err = time.Now(), err
		return nil, err
	}
	g.conn = conn
	return conn, nil
}

func (p *pool) gateway(address string) (*gateway, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, rocketmq.ErrClosed
	}
	g := p.gateways[address]
	if g == nil {
		g = &gateway{}
		p.gateways[address] = g
	}
	return g, nil
}

// known returns the names of the brokers whose address is known.
func (p *pool) known() []string {
	p.brokersMu.RLock()
	defer p.brokersMu.RUnlock()
	return slices.Collect(maps.Keys(p.brokers))
}
