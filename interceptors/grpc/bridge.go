package grpclistener

import (
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// callTimeout bounds one call into the store.
const callTimeout = 15 * time.Second

// bridge is the BridgeService.
type bridge struct {
	bridgev1.UnimplementedBridgeServiceServer
	config   Config
	in       *core.Interceptor
	stopping chan struct{}  // closed when the streams are to end
	readers  sync.WaitGroup // of streams
}

func newBridge(config Config, in *core.Interceptor) *bridge {
	return &bridge{config: config, in: in, stopping: make(chan struct{})}
}
