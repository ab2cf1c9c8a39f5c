package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/delaybridge/delaybridge/client"
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
	ctx, url, token := context.Background(), server.URL, ""

	bridge, err := client.New(client.Config{URL: url, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer bridge.Close()

	receipt, err := bridge.Publish(ctx, client.Message{
		ID: "order-42-reminder", Sink: "kafka", Topic: "reminders", Key: []byte("42"),
		Body: []byte(`{"order":42}`), Delay: 10 * time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, receipt.State, receipt.Durability)

	gone, err := bridge.Cancel(ctx, client.Ref{ID: "order-42-reminder", Key: []byte("42")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(gone.State, gone.MayHaveBeenSent)

	// Output:
	// order-42-reminder scheduled memory
	// cancelled false
}

func ExampleClient_PublishBatch() {
	server := startBridge()
	defer server.Close()
	ctx := context.Background()
	bridge, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	messages := []client.Message{
		{ID: "a", Topic: "reminders", Delay: time.Hour},
		{ID: "b", Topic: "not a topic", Delay: time.Hour},
	}

	receipts, err := bridge.PublishBatch(ctx, messages)
	if failed, ok := errors.AsType[client.BatchError](err); ok {
		for n, err := range failed {
			switch {
			case err == nil: // stored
			case errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrUnavailable):
				messages[n].ID = receipts[n].ID // publish it again, later
			default:
				fmt.Println(receipts[n].ID, err)
			}
		}
	}

	// Output:
	// b delaybridge: topic: may hold printable ASCII without spaces only [invalid]
}

func ExamplePublisher() {
	server := startBridge()
	defer server.Close()
	ctx := context.Background()
	bridge, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	messages := []client.Message{
		{ID: "a", Topic: "reminders", Delay: time.Hour},
		{ID: "b", Topic: "reminders"},
	}

	publisher := bridge.NewPublisher()
	var results []*client.Result
	for _, m := range messages {
		results = append(results, publisher.Publish(ctx, m))
	}
	for _, result := range results {
		if receipt, err := result.Get(ctx); err != nil {
			fmt.Println(receipt.ID, err)
		}
	}
	if err := publisher.Close(ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// b delaybridge: deliver_at: is missing: set a time or a delay, or the delay client.Now to deliver at once [invalid]
}

func ExampleClient_List() {
	server := startBridge()
	defer server.Close()
	ctx := context.Background()
	bridge, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	for n := range 3 {
		m := client.Message{ID: fmt.Sprint("m-", n), Topic: "reminders", Body: []byte("hello"), Delay: time.Duration(n+1) * time.Hour}
		if _, err := bridge.Publish(ctx, m); err != nil {
			log.Fatal(err)
		}
	}

	for entry, err := range bridge.List(ctx, client.Query{Topic: "reminders", DueBefore: time.Now().Add(150 * time.Minute)}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.ID, entry.State, entry.BodySize)
	}

	// Output:
	// m-0 scheduled 5
	// m-1 scheduled 5
}
