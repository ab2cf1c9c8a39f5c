package rocketmqdelay_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/rocketmqdelay"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// startBridge is a bridge with a store in memory, which delivers nothing.
func startBridge() *httptest.Server {
	listener, err := httplistener.New(httplistener.Config{}, core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "rocketmq"}).Interceptor)
	if err != nil {
		log.Fatal(err)
	}
	return httptest.NewServer(listener.Handler())
}

func Example() {
	ctx, body := context.Background(), []byte("hello")
	bridge, err := client.New(client.Config{URL: "http://localhost:7420"})
	if err != nil {
		log.Fatal(err)
	}

	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{"127.0.0.1:9876"})),
		producer.WithInterceptor(rocketmqdelay.Intercept(bridge, rocketmqdelay.Options{Sink: "rocketmq"})),
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}

	m := primitive.NewMessage("reminders", body)
	m.WithProperty("delaybridge-delay", "10m")
	result, err := p.SendSync(ctx, m)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.MsgID) // the ID, for bridge.Get and bridge.Cancel
}

// ExampleIntercept calls the interceptor as a producer does.
func ExampleIntercept() {
	server := startBridge()
	defer server.Close()
	bridge, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	intercept := rocketmqdelay.Intercept(bridge, rocketmqdelay.Options{})
	ctx := primitive.WithMethod(context.Background(), primitive.SendSync)
	toBroker := func(context.Context, any, any) error {
		fmt.Println("sent at once")
		return nil
	}

	m, result := primitive.NewMessage("reminders", []byte("hello")), primitive.NewSendResult()
	fmt.Println(intercept(ctx, m, result, toBroker))

	m.WithDelayTimeLevel(14) // 10 minutes
	fmt.Println(intercept(ctx, m, result, toBroker))
	parked, err := bridge.Get(ctx, client.Ref{ID: result.MsgID})
	fmt.Println(parked.Topic, parked.State, err)

	// Output:
	// sent at once
	// <nil>
	// <nil>
	// reminders scheduled <nil>
}
