package grpclistener

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/listener"
)

const (
	// watchEvery is how often a watch looks.
	watchEvery = 5 * time.Second
	// maxWatches is how many there may be at once, as they need no token.
	maxWatches = 1000
)

// health is the standard health service: SERVING while messages can be accepted.
// It knows the service of the bridge and "", which are the same. No token is
// needed.
type health struct {
	healthv1.UnimplementedHealthServer
	in        *core.Interceptor
	log       *slog.Logger
	readiness listener.Readiness
	watches   atomic.Int64
	stopping  <-chan struct{}
	age       time.Duration // after which a watch ends
	every     time.Duration // a watch looks
}

// Check implements healthv1.HealthServer.
func (h *health) Check(ctx context.Context, request *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !known(request) {
		return nil, status.Error(codes.NotFound, "there is no such service")
	}
	return &healthv1.HealthCheckResponse{Status: h.look(ctx)}, nil
}

// List implements healthv1.HealthServer.
func (h *health) List(ctx context.Context, _ *healthv1.HealthListRequest) (*healthv1.HealthListResponse, error) {
	now := &healthv1.HealthCheckResponse{Status: h.look(ctx)}
	return &healthv1.HealthListResponse{Statuses: map[string]*healthv1.HealthCheckResponse{
		"": now, bridgev1.BridgeService_ServiceDesc.ServiceName: now,
	}}, nil
}

// Watch implements healthv1.HealthServer: it tells each change, until the client
// has enough, the stream is old, or the server stops. RESOURCE_EXHAUSTED means that
// there are too many watches: check now and then instead.
func (h *health) Watch(request *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	defer h.watches.Add(-1)
	if h.watches.Add(1) > maxWatches {
		return status.Errorf(codes.ResourceExhausted, "there are %d watches already; use Check", maxWatches)
	}
	ctx, cancel := context.WithTimeout(stream.Context(), h.age)
	defer cancel()
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	told := healthv1.HealthCheckResponse_UNKNOWN
	for {
		now := healthv1.HealthCheckResponse_SERVICE_UNKNOWN
		if known(request) {
			now = h.look(ctx)
		}
		if now != told && ctx.Err() == nil {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			told = now
		}
		select {
		case <-ticker.C:
		case <-h.stopping:
			if told == healthv1.HealthCheckResponse_SERVING {
				_ = stream.Send(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}) // the end says it too
			}
			return status.Error(codes.Unavailable, "the bridge is stopping")
		case <-ctx.Done():
			return status.Error(codes.Unavailable, "the watch has ended; start another")
		}
	}
}

func known(request *healthv1.HealthCheckRequest) bool {
	return request.Service == "" || request.Service == bridgev1.BridgeService_ServiceDesc.ServiceName
}

func (h *health) look(ctx context.Context) healthv1.HealthCheckResponse_ServingStatus {
	select {
	case <-h.stopping:
		return healthv1.HealthCheckResponse_NOT_SERVING
	default:
	}
	err := h.in.Ready(ctx)
	h.readiness.Note(h.log, err)
	if err != nil {
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	return healthv1.HealthCheckResponse_SERVING
}
