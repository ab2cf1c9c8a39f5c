package plugin

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

const (
	// window is how much of a message may be under way before the other side
	// has read any; with the usual 64 KiB every larger batch would wait for it.
	window = 4 << 20
	// socketBuffer holds a usual batch.
	socketBuffer = 128 << 10
)

// bufferPool lends buffers for whole messages. The usual one has nothing
// between 32 KiB and 1 MiB, where most batches are, and clears what it lends.
func bufferPool() mem.BufferPool {
	return mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20, 2<<20, 4<<20)
}

// hostOptions have the host's side of the connection suit batches.
func hostOptions() []grpc.DialOption {
	pool := bufferPool()
	return []grpc.DialOption{
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithReadBufferSize(socketBuffer), grpc.WithWriteBufferSize(socketBuffer),
		experimental.WithBufferPool(pool),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{encoding.GetCodecV2(protocodec.Name), pool})),
	}
}
