package rocketmq

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
)

func TestMain(m *testing.M) {
	var known []goleak.Option
	for _, name := range clientLeaks() {
		known = append(known, goleak.IgnoreAnyFunction(name))
	}
	goleak.VerifyTestMain(plugintest.Main(m, asPlugin()), known...)
}

const (
	client   = "github.com/apache/rocketmq-client-go/v2/internal.(*rmqClient).Start."
	remoting = "github.com/apache/rocketmq-client-go/v2/internal/remote.(*remotingClient)."
)

// clientLeaks are goroutines of the client library that stay after Shutdown:
// they sleep for up to ten seconds before they look (for the shutdown see its
// issue 728, for the number of goroutines 617). Everything else must end.
func clientLeaks() []string {
	return []string{
		client + "func1.1", // name server addresses
		client + "func1.2", // routes
		client + "func1.3", // heartbeats
		client + "func1.4", // consumer offsets
		client + "func1.5", // rebalancing
		// of a variable of the library's, from the start of the process
		"github.com/patrickmn/go-cache.(*janitor).Run",
	}
}

func TestCloseEndsDeliver(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{}, 100)
	c.brokers["a"].setPlan(func(sent) action { arrived <- struct{}{}; return action{silent: true} })
	results := make(chan error)
	start := time.Now()
	for n := range 20 {
		go func() { results <- s.Deliver(t.Context(), []*core.Message{message(n)}) }()
	}
	<-arrived
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		if err := <-results; err == nil {
			t.Error("delivered after Close")
		}
	}
	if took := time.Since(start); took >= maxSendTimeout {
		t.Errorf("took %s, as if nobody had ended them", took)
	}
	err := s.Deliver(t.Context(), messages(1))
	if wantClasses(t, err, "retry"); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("health after Close: %v", err)
	}
}

func TestTwoSinksInOneProcess(t *testing.T) {
	c := newCluster(t, "a")
	first, second := open(t, c), open(t, c)
	for _, s := range []*Sink{first, second} {
		if err := s.Deliver(t.Context(), messages(1)); err != nil {
			t.Fatal(err)
		}
	}
	first.Close()
	if err := second.Deliver(t.Context(), messages(1)); err != nil {
		t.Errorf("the second sink after the end of the first: %v", err)
	}
}

func TestOpenAndCloseLeavesNothing(t *testing.T) {
	c := newCluster(t, "a")
	for range 100 {
		s := open(t, c)
		if err := s.Deliver(t.Context(), messages(1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(30 * time.Second)
	for c.brokers["a"].connections() > 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d connections to the broker are open", c.brokers["a"].connections())
		}
	}
}

func TestHealth(t *testing.T) {
	t.Run("well", func(t *testing.T) {
		if err := open(t, newCluster(t, "a")).Health(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("one broker of two", func(t *testing.T) {
		c := newCluster(t, "a", "b")
		c.brokers["b"].mute(t)
		if err := open(t, c).Health(t.Context()); err != nil {
			t.Error(err)
		}
	})
	ill := map[string]func(*testing.T, *cluster){
		"no name server":  func(_ *testing.T, c *cluster) { c.names.stop() },
		"broker is down":  func(_ *testing.T, c *cluster) { c.brokers["a"].stop() },
		"broker hangs":    func(t *testing.T, c *cluster) { c.brokers["a"].mute(t) },
		"no broker known": func(_ *testing.T, c *cluster) { c.forgetBrokers() },
	}
	for name, spoil := range ill {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a")
			s := open(t, c, quick)
			spoil(t, c)
			if err := s.Health(t.Context()); err == nil {
				t.Error("healthy")
			}
		})
	}
}
