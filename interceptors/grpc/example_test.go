package grpclistener_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// A client sends messages on a stream, and reads what became of them meanwhile.
func Example_stream() {
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{}, &core.Dispatcher{Name: "orders"}).Interceptor
	listener, err := grpclistener.New(grpclistener.Config{Listen: "127.0.0.1:0"}, in)
	if err != nil {
		panic(err)
	}
	addr, err := listener.Listen()
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- listener.Run(ctx) }()

	conn, err := grpc.NewClient("passthrough:///"+addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	if err := publish(ctx, bridgev1.NewBridgeServiceClient(conn), []*bridgev1.Message{
		{Id: "a", Topic: "reminders", Body: []byte("hi"), Delay: durationpb.New(time.Hour)},
		{Id: "b", Topic: "not a topic", Delay: durationpb.New(time.Hour)},
	}); err != nil {
		fmt.Println(err)
	}
	conn.Close()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 0 a STATE_SCHEDULED
	// 1 b refused: invalid topic
	// <nil>
}

func publish(ctx context.Context, client bridgev1.BridgeServiceClient, messages []*bridgev1.Message) error {
	stream, err := client.PublishStream(ctx)
	if err != nil {
		return err
	}
	go func() {
		for n, m := range messages {
			request := &bridgev1.PublishStreamRequest{Sequence: uint64(n), Messages: []*bridgev1.Message{m}}
			if stream.Send(request) != nil {
				return // Recv tells why
			}
		}
		_ = stream.CloseSend() // always nil
	}()
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range response.Results {
			if r.Error != nil {
				fmt.Println(response.Sequence, r.Id, "refused:", r.Error.Code, r.Error.Field)
				continue
			}
			fmt.Println(response.Sequence, r.Id, r.State)
		}
	}
}
