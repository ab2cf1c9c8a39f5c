package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// spy is a store that remembers what it was asked to park.
type spy struct {
	*memstore.Store
	off    bool // remember nothing
	mu     sync.Mutex
	parked []core.Message
}

func (s *spy) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	if !s.off {
		s.mu.Lock()
		for _, m := range messages {
			s.parked = append(s.parked, clone(m))
		}
		s.mu.Unlock()
	}
	return s.Store.Park(ctx, messages...)
}

// clone copies what the listener may reuse.
func clone(m *core.Message) core.Message {
	c := *m
	c.Key, c.Body, c.Headers = cloneBytes(m.Key), cloneBytes(m.Body), nil
	for _, h := range m.Headers {
		c.Headers = append(c.Headers, core.Header{Name: h.Name, Value: cloneBytes(h.Value)})
	}
	return c
}

func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// listener is the real HTTP listener before a store in memory. The handler in front of
// it may be exchanged.
type listener struct {
	store *spy
	url   string
	real  http.Handler

	mu       sync.Mutex
	front    http.Handler
	requests []string // method and path
}

func newListener(t testing.TB, config httplistener.Config, sinks ...*core.Dispatcher) *listener {
	t.Helper()
	if len(sinks) == 0 {
		sinks = []*core.Dispatcher{{Name: "orders"}}
	}
	d := &listener{store: &spy{Store: memstore.New(memstore.Config{})}}
	server, err := httplistener.New(config, core.NewBridge(d.store, core.Options{}, sinks...).Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	d.real = server.Handler()
	d.front = d.real
	web := httptest.NewServer(d)
	t.Cleanup(web.Close)
	d.url = web.URL
	return d
}

func (d *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.requests = append(d.requests, r.Method+" "+r.URL.Path)
	front := d.front
	d.mu.Unlock()
	front.ServeHTTP(w, r)
}

func (d *listener) asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.requests...)
}

// first has the first n requests go through faulty, the others to the listener.
func (d *listener) first(n int, faulty http.HandlerFunc) {
	left := n
	var mu sync.Mutex
	d.mu.Lock()
	defer d.mu.Unlock()
	d.front = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		left--
		now := left >= 0
		mu.Unlock()
		if now {
			faulty(w, r)
			return
		}
		d.real.ServeHTTP(w, r)
	})
}

// dropReply has the request executed, and cuts the connection in place of the
// answer.
func (d *listener) dropReply(_ http.ResponseWriter, r *http.Request) {
	d.real.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func (d *listener) client(t testing.TB, config client.Config) *client.Client {
	t.Helper()
	config.URL = d.url
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fixture is a listener, and a client of it.
func fixture(t testing.TB) (*listener, *client.Client) {
	t.Helper()
	d := newListener(t, httplistener.Config{})
	return d, d.client(t, client.Config{})
}
