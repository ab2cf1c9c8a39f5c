package grpclistener

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
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
	ill   atomic.Bool
	looks atomic.Int32
}

func (a *ailing) Health(context.Context) error {
	a.looks.Add(1)
	if a.ill.Load() {
		return errors.New("ill")
	}
	return nil
}

func newHealth(store core.Store, stopping <-chan struct{}, log io.Writer) *health {
	return &health{in: interceptor(store, "orders"), log: slog.New(slog.NewTextHandler(log, nil)), stopping: stopping, age: time.Hour, every: watchEvery}
}

// What is in the way is in the log, once, and in no answer.
func TestHealthTellsStrangersNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &ailing{Store: memstore.New(memstore.Config{})}
		h := newHealth(store, nil, &log)
		for _, ill := range []bool{false, true, false} {
			store.ill.Store(ill)
			for range 100 {
				time.Sleep(time.Second)
				response, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{})
				if err != nil || (response.Status == notServing) != ill {
					t.Fatalf("got %v %v, ill: %t", response, err, ill)
				}
			}
			list, err := h.List(t.Context(), &healthv1.HealthListRequest{})
			if err != nil || len(list.Statuses) != 2 || (list.Statuses[""].Status == notServing) != ill {
				t.Errorf("got %v %v", list, err)
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "err=ill") || !strings.Contains(text, "ready again") {
			t.Errorf("the log:\n%s", text)
		}
	})
}

// Ten thousand watches cost no more than a thousand, and one look a second.
func TestWatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ailing{Store: memstore.New(memstore.Config{})}
		h := newHealth(store, nil, io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		told, ended := make(chan healthv1.HealthCheckResponse_ServingStatus, 10_000), make(chan error, 10_000)
		for range 10_000 {
			go func() { ended <- h.Watch(&healthv1.HealthCheckRequest{}, &watcher{ctx: ctx, told: told}) }()
		}
		synctest.Wait()
		for range 9000 {
			if err := <-ended; status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if n := store.looks.Load(); len(told) != maxWatches || n > 60/int32(watchEvery/time.Second)+2 {
			t.Errorf("%d were told, %d looks", len(told), n)
		}
		cancel()
		for range maxWatches {
			<-ended
		}
		if n := h.watches.Load(); n != 0 {
			t.Errorf("%d are counted at the end", n)
		}
	})
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
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
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
		h := newHealth(store, stopping, io.Discard)
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
