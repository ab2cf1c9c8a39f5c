package grpclistener

import (
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// benchRequest has n messages of 200 bytes.
func benchRequest(n int) *bridgev1.PublishStreamRequest {
	request := new(bridgev1.PublishStreamRequest)
	for range n {
		request.Messages = append(request.Messages, &bridgev1.Message{Topic: "orders", Key: []byte("customer-4711"),
			Body: make([]byte, 200), Delay: durationpb.New(15 * time.Minute)})
	}
	return request
}

// BenchmarkStream is one message from a stream over loopback into a store in
// memory, with the client's share.
func BenchmarkStream(b *testing.B) {
	for _, streams := range []int{1, 4} {
		for _, each := range []int{1, 20, 100} {
			b.Run(fmt.Sprintf("streams=%d/messages=%d", streams, each), func(b *testing.B) {
				in := interceptor(memstore.New(memstore.Config{}), "orders")
				benchStreams(b, in, streams, each)
			})
		}
	}
}

func benchStreams(b *testing.B, in *core.Interceptor, streams, each int) {
	addr, _, _ := start(b, Config{}, in)
	client := bridgev1.NewBridgeServiceClient(dial(b, addr))
	ended := make(chan error, streams)
	b.ReportAllocs()
	b.ResetTimer()
	for range streams {
		go func() { ended <- publishAll(b, client, b.N/streams/each+1, benchRequest(each)) }()
	}
	for range streams {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// publishAll sends a request some times, and waits for as many responses.
func publishAll(b *testing.B, client bridgev1.BridgeServiceClient, times int, request *bridgev1.PublishStreamRequest) error {
	stream, err := client.PublishStream(b.Context())
	if err != nil {
		return err
	}
	go func() {
		for range times {
			if stream.Send(request) != nil {
				return // shows in Recv
			}
		}
		_ = stream.CloseSend() // shows in Recv
	}()
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil || response.Results[0].Error != nil {
			return fmt.Errorf("got %v: %w", response, err)
		}
	}
}

// BenchmarkPublish is one message in a call of its own, from 16 callers.
func BenchmarkPublish(b *testing.B) {
	addr, _, _ := start(b, Config{}, interceptor(memstore.New(memstore.Config{}), "orders"))
	client := bridgev1.NewBridgeServiceClient(dial(b, addr))
	request := &bridgev1.PublishRequest{Messages: benchRequest(1).Messages}
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Publish(b.Context(), request); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkDecode is one message from the protocol's form to core's.
func BenchmarkDecode(b *testing.B) {
	in := interceptor(nil, "orders")
	d := decoder{limits: in.Limits()}
	p := benchRequest(1).Messages[0]
	b.ReportAllocs()
	for b.Loop() {
		var m core.Message
		if err := d.decode(p, &m); err != nil {
			b.Fatal(err)
		}
	}
}
