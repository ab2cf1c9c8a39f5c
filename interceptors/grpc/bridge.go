package grpclistener

import (
	"context"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
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

// refuse is statusOf for what the listener refuses by itself: the observer is told.
func (b *bridge) refuse(ctx context.Context, f apierror.Error, more details) error {
	b.in.Refused(ctx, f.Code)
	return statusOf(f, more)
}

func newBridge(config Config, in *core.Interceptor) *bridge {
	return &bridge{config: config, in: in, stopping: make(chan struct{})}
}
