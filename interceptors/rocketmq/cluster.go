package rocketmqsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// cluster is the connections to the name servers and brokers of a cluster, one
// to each address, and where its brokers are. Safe for concurrent use.
type cluster struct {
	settings *settings
	notice   func(code int) // is told of what brokers ask

	mu      sync.Mutex
	ports   map[string]*gateway // by address
	closed  bool
	readers sync.WaitGroup

	brokersMu sync.RWMutex
	brokers   map[string]string // addresses by name
}

// gateway is the way to one address.
type gateway struct {
	mu     sync.Mutex // held while dialling
	link   *link
	failed time.Time // the last dial
	err    error
}

// failureHolds is how long a failed dial answers for others.
const failureHolds = 200 * time.Millisecond

func newCluster(s *settings, notice func(code int)) *cluster {
	return &cluster{settings: s, notice: notice, ports: make(map[string]*gateway), brokers: make(map[string]string)}
}

// close ends all connections and waits until nothing is at work any more.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	ports := c.ports
	c.mu.Unlock()
	for _, e := range ports {
		e.mu.Lock()
		if e.link != nil {
			e.link.fail(errClosed)
		}
		e.mu.Unlock()
	}
	c.readers.Wait()
}

// ask makes a request to an address within the usual time, or patience more. A
// connection that gives no answer by then is ended, as nothing else may tell
// that it leads nowhere.
func (c *cluster) ask(ctx context.Context, address string, q request, patience time.Duration) (*reply, error) {
	bounded, cancel := context.WithTimeout(ctx, c.settings.requestTimeout+patience)
	defer cancel()
	l, err := c.link(bounded, address)
	if err != nil {
		return nil, err
	}
	r, err := l.ask(bounded, q)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		l.fail(err)
	}
	return r, err
}

// askBroker is ask for a broker of that name. Any code but 0 is a *refused.
func (c *cluster) askBroker(ctx context.Context, name string, q request) (*reply, error) {
	address, err := c.addressOf(name)
	if err != nil {
		return nil, err
	}
	r, err := c.ask(ctx, address, q, 0)
	if err == nil && r.Code != codeOK {
		return r, r.refused()
	}
	return r, err
}

func (c *cluster) addressOf(broker string) (string, error) {
	c.brokersMu.RLock()
	defer c.brokersMu.RUnlock()
	if address := c.brokers[broker]; address != "" {
		return address, nil
	}
	return "", fmt.Errorf("the name servers have no address of broker %s", broker)
}

func (c *cluster) link(ctx context.Context, address string) (*link, error) {
	e, err := c.gateway(address)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.link != nil && !e.link.broken():
		return e.link, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case time.Since(e.failed) < failureHolds:
		return nil, e.err
	}
	dialling, cancel := context.WithTimeout(ctx, c.settings.requestTimeout)
	defer cancel()
	conn, err := c.settings.dial(dialling, "tcp", address)
	if err != nil {
		e.failed, e.err = time.Now(), err
		return nil, err
	}
	e.link = newLink(conn, c.settings, c.notice)
	return e.link, c.start(e.link)
}

// start reads from a link, unless the cluster has been closed meanwhile.
func (c *cluster) start(l *link) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.fail(errClosed)
		return errClosed
	}
	c.readers.Go(l.read)
	return nil
}

func (c *cluster) gateway(address string) (*gateway, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	e := c.ports[address]
	if e == nil {
		e = &gateway{}
		c.ports[address] = e
	}
	return e, nil
}

// known returns the names of the brokers whose address is known.
func (c *cluster) known() []string {
	c.brokersMu.RLock()
	defer c.brokersMu.RUnlock()
	return slices.Collect(maps.Keys(c.brokers))
}
