package kafkadelay_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/client/kafkadelay"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// startBridge is a bridge with a store in memory, which delivers nothing.
func startBridge() *httptest.Server {
	listener, err := httplistener.New(httplistener.Config{}, core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "kafka"}).Interceptor)
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
	writer := &kafka.Writer{Addr: kafka.TCP("localhost:9092"), Balancer: kafka.Murmur2Balancer{}}

	w := kafkadelay.Wrap(writer, bridge, kafkadelay.Options{Sink: "kafka"})

	err = w.WriteMessages(ctx, kafka.Message{Topic: "reminders", Value: body, Headers: []kafka.Header{
		{Key: "delaybridge-delay", Value: []byte("10m")},
		{Key: "delaybridge-id", Value: []byte("order-42-reminder")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	parked, err := bridge.Get(ctx, client.Ref{ID: "order-42-reminder"})
	fmt.Println(parked.Topic, parked.State, err)

	// Output: reminders scheduled <nil>
}
