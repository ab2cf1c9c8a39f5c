// Command embedded is a program that has a bridge inside, with a sink of its own. It
// sends one reminder, prints it two seconds later, and ends with Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

func main() {
	redis := flag.String("redis", "", "address of a Redis, such as 127.0.0.1:6379 (default: park in memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, err := openStore(ctx, *redis)
	if err != nil {
		log.Fatal(err)
	}
	bridge := core.NewBridge(store, core.Options{}, &core.Dispatcher{Name: "printer", Sink: printer{}})
	ended := make(chan error)
	go func() { ended <- bridge.Run(ctx) }()
	<-bridge.Started()
	reminder := &core.Message{Topic: "reminders", Body: []byte("pay soon"), Delay: 2 * time.Second}
	receipt := bridge.Accept(ctx, reminder)[0]
	fmt.Println("accepted", receipt.ID, receipt.DeliverAt.Format(core.TimeFormat), receipt.Err)
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

func openStore(ctx context.Context, redis string) (core.Store, error) {
	if redis == "" {
		return memstore.New(memstore.Config{}), nil
	}
	return redisstore.Open(ctx, redisstore.Config{Addrs: []string{redis}})
}

// printer is a core.Sink that prints messages.
type printer struct{}

// Deliver implements core.Sink: a message that could not be printed is tried again.
func (printer) Deliver(_ context.Context, batch []*core.Message) error {
	results := make(core.BatchError, len(batch))
	for n, m := range batch {
		_, results[n] = fmt.Println("delivered", m.ID, time.Now().Format(core.TimeFormat), m.Topic, string(m.Body))
	}
	return results
}

// Close implements core.Sink.
func (printer) Close() error { return nil }
