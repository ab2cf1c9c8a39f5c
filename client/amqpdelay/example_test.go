package amqpdelay_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/amqpdelay"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// startBridge is a bridge with a store in memory, which delivers nothing.
func startBridge() *httptest.Server {
	listener, err := httplistener.New(httplistener.Config{}, core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "amqp"}).Interceptor)
	if err != nil {
		log.Fatal(err)
	}
	return httptest.NewServer(listener.Handler())
}

func Example() {
	server := startBridge()
	defer server.Close()
	ctx, body := context.Background(), []byte("hello")
	bridge, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	var channel *amqp.Channel // of a connection; messages with a delay do not use it

	ch := amqpdelay.Wrap(channel, bridge, amqpdelay.Options{Sink: "amqp"})

	err = ch.PublishWithContext(ctx, "", "reminders", true, false, amqp.Publishing{
		MessageId: "order-42-reminder", Headers: amqp.Table{"x-delay": 600_000}, Body: body,
	})
	if err != nil {
		log.Fatal(err)
	}
	parked, err := bridge.Get(ctx, client.Ref{ID: "order-42-reminder"})
	fmt.Println(parked.Topic, parked.State, err)

	// Output: reminders scheduled <nil>
}
