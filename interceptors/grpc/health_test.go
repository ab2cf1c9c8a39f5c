package grpcdoor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

const (
	serving    = healthv1.HealthCheckResponse_SERVING
	notServing = healthv1.HealthCheckResponse_NOT_SERVING
)

// ailing is a store that is well or not.
type ailing struct {
	core.Store
	ill atomic.Bool
}

func (a *ailing) Health(context.Context) error {
	if a.ill.Load() {
		return errors.New("ill")
	}
	return nil
}

func TestHealthFollowsReady(t *testing.T) {
	store := &ailing{Store: memstore.New(memstore.Config{})}
	addr, _, stop := start(t, Config{}, interceptor(store, "orders"))
	client := healthv1.NewHealthClient(dial(t, addr))
	check := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		response, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || response.Status != want {
			t.Errorf("%q: got %v %v", service, response, err)
		}
	}
	check("", serving)
	check("delaybridge.v1.BridgeService", serving)
	store.ill.Store(true)
	check("", notServing)
	check("delaybridge.v1.BridgeService", notServing)
	list, err := client.List(t.Context(), &healthv1.HealthListRequest{})
	if err != nil || len(list.Statuses) != 2 || list.Statuses[""].Status != notServing {
		t.Errorf("got %v %v", list, err)
	}
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	store.ill.Store(false)
	watch, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if response, err := watch.Recv(); err != nil || response.Status != serving {
		t.Errorf("got %v %v", response, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if response, err := watch.Recv(); err != nil || response.Status != notServing {
		t.Errorf("at the end: %v %v", response, err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

// watcher is the server's side of a watch.
type watcher struct {
	grpc.ServerStream
	ctx  context.Context
	told chan healthv1.HealthCheckResponse_ServingStatus
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(response *healthv1.HealthCheckResponse) error {
	w.told <- response.Status
	return nil
}

func TestWatchTellsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ailing{Store: memstore.New(memstore.Config{})}
		stopping := make(chan struct{})
		h := &health{in: interceptor(store, "orders"), stopping: stopping, age: time.Hour, every: watchEvery}
		w := &watcher{ctx: t.Context(), told: make(chan healthv1.HealthCheckResponse_ServingStatus, 10)}
		begun := time.Now()
		ended := make(chan error)
		go func() { ended <- h.Watch(&healthv1.HealthCheckRequest{}, w) }()
		if got := <-w.told; got != serving || time.Since(begun) != 0 {
			t.Errorf("got %s after %s", got, time.Since(begun))
		}
		store.ill.Store(true)
		if got := <-w.told; got != notServing || time.Since(begun) > watchEvery {
			t.Errorf("got %s after %s", got, time.Since(begun))
		}
		store.ill.Store(false)
		<-w.told
		if err := <-ended; status.Code(err) != codes.Unavailable || time.Since(begun) != time.Hour || len(w.told) != 0 {
			t.Errorf("ended after %s with %v, told %d times more", time.Since(begun), err, len(w.told))
		}
		go func() { ended <- h.Watch(&healthv1.HealthCheckRequest{Service: "other"}, w) }()
		if got := <-w.told; got != healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
			t.Errorf("got %s", got)
		}
		close(stopping)
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}
