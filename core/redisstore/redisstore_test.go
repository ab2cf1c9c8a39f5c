package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/storetest"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestMain(m *testing.M) {
	LogClient(slog.New(slog.DiscardHandler)) // tests cut connections on purpose
	goleak.VerifyTestMain(servers.Main(m))
}

var prefixes atomic.Int64

// freshConfig is a store of its own on the Redis that this package's tests share.
func freshConfig(t *testing.T) Config {
	return Config{Addrs: []string{servers.SharedRedis(t).Addr()},
		Prefix: fmt.Sprintf("t%d", prefixes.Add(1)), Lease: suiteLease, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// testTimeout is for tests that make each call once: a machine that stands still
// for a while is not a Redis that does not answer.
const testTimeout = 30 * time.Second

// open opens a store whose calls have testTimeout, unless c says otherwise.
func open(t *testing.T, c Config) *Store {
	t.Helper()
	c.timeout = cmp.Or(c.timeout, testTimeout)
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// harness runs the suite against stores that base configures.
func harness(base func(t *testing.T) Config) storetest.Harness {
	return storetest.Harness{
		Open: func(t *testing.T, c storetest.Config) core.Store {
			config := base(t)
			config.Buckets, config.DedupeWindows, config.Guard = c.Buckets, c.DedupeWindow, storetest.Guard
			if !c.HandsOver {
				config.Lease = time.Minute // outlasts any hold-up of the machine
			}
			return open(t, config)
		},
		Second: func(t *testing.T, first core.Store) core.Store {
			config := first.(*Store).config
			config.Instance = ""
			return open(t, config)
		},
		Kill: func(t *testing.T, store core.Store) { store.(*Store).Close() },
	}
}

func TestStore(t *testing.T) { storetest.Run(t, harness(freshConfig)) }

func TestModel(t *testing.T) { storetest.Model(t, harness(freshConfig)) }

// suiteLease is short, as some tests wait for a lease to end, and long
// enough to be renewed though the machine stands still for a while.
const suiteLease = 5 * time.Second

func TestBridgeDelivers(t *testing.T) {
	config := freshConfig(t)
	config.timeout = testTimeout
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	sink := make(chanSink, 10)
	d := &core.Dispatcher{Name: "orders", Sink: sink}
	bridge := core.NewBridge(s, core.Options{}, d)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- bridge.Run(ctx) }()
	var messages []*core.Message
	for n := range 5 {
		messages = append(messages, &core.Message{Sink: "orders", Topic: "t", Body: []byte{byte(n)}, Delay: time.Duration(n*20) * time.Millisecond})
	}
	for _, r := range bridge.Accept(t.Context(), messages...) {
		if r.Err != nil || r.State != core.Scheduled {
			t.Fatalf("receipt %+v", r)
		}
	}
	for n := range 5 {
		if m := <-sink; m.Body[0] != byte(n) || m.Attempt != 1 {
			t.Errorf("message %d is %+v", n, m)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r := bridge.Accept(t.Context(), messages[0])[0]; !errors.Is(r.Err, core.ErrEnded) {
		t.Errorf("accept after the end: %+v", r)
	}
	t.Logf("%+v", d.Totals())
}

// chanSink passes on what it is given.
type chanSink chan *core.Message

func (c chanSink) Deliver(_ context.Context, batch []*core.Message) error {
	for _, m := range batch {
		c <- m
	}
	return nil
}

func (c chanSink) Close() error { return nil }
