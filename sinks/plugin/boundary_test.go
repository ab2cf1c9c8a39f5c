//go:build unix

package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// BenchmarkBoundary is what both sides of the boundary cost together, without
// TLS: processor time a message.
func BenchmarkBoundary(b *testing.B) {
	for _, size := range []int{1, 20, 500} {
		b.Run(fmt.Sprintf("batches of %d", size), func(b *testing.B) { benchBoundary(b, size) })
	}
}

func benchBoundary(b *testing.B, size int) {
	path := filepath.Join(b.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	s := newServer(defined(nil), slog.New(slog.DiscardHandler))
	g := grpc.NewServer(s.options()...)
	s.sink = &scripted{deliver: func(context.Context, []*core.Message) error { return nil }}
	sinkv1.RegisterSinkServiceServer(g, s)
	go g.Serve(listener)
	defer g.Stop()
	conn, err := grpc.NewClient("unix:"+path, append(hostOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := sinkv1.NewSinkServiceClient(conn)
	batch, now, ids := make([]*core.Message, size), time.Now(), core.NewIDs()
	for n := range batch {
		batch[n] = &core.Message{ID: ids.New(0, now), Topic: "t", Body: make([]byte, 200), DeliverAt: now, Attempt: 1}
	}
	b.ReportAllocs()
	b.ResetTimer()
	began, next := processorTime(b), atomic.Int64{}
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for next.Add(int64(size)) <= int64(b.N)+int64(size) {
				if r, err := client.Deliver(context.Background(), &sinkv1.DeliverRequest{Messages: toProto(batch)}); err != nil || len(r.Results) != size {
					b.Error(r, err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
