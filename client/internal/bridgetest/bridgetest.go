// Package bridgetest runs a whole bridge in the process of a test: the HTTP
// listener, a store in memory, and one sink.
package bridgetest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// Start runs a bridge until the test ends, and returns a client of it. Its one
// sink has the name given and is opened with config, in JSON.
func Start(t testing.TB, name string, open core.OpenFunc, config any) *client.Client {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := open(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	bridge := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: name, Sink: sink})
	listener, err := httplistener.New(httplistener.Config{Listen: "127.0.0.1:0"}, bridge.Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := listener.Listen()
	if err != nil {
		t.Fatal(err)
	}
	run(t, bridge, core.Input{Name: "http listener", Run: listener.Run})
	return newClient(t, "http://"+addr.String())
}

// run has a bridge run until the test ends.
func run(t testing.TB, bridge *core.Bridge, input core.Input) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx, input) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run the bridge: %v", err)
		}
	})
}

func newClient(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
