package grpclistener

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// TestObserverIsToldOnce: what the listener refuses by itself is no call of Accept.
func TestObserverIsToldOnce(t *testing.T) {
	var mu sync.Mutex
	var told []string
	note := func(what string) { mu.Lock(); defer mu.Unlock(); told = append(told, what) }
	observer := core.Observer{
		Accepted: func(_ context.Context, a core.Acceptance) {
			for _, r := range a.Receipts {
				note(a.Input + " accepted " + r.ID)
			}
		},
		Refused: func(_ context.Context, r core.Refusal) { note(r.Input + " refused " + r.Reason) },
		Changed: func(_ context.Context, c core.Change) { note(c.Input + " changed " + c.Ref.ID) },
	}
	in := core.NewBridge(memstore.New(memstore.Config{}), core.Options{Observer: observer}, &core.Dispatcher{Name: "orders"}).For("grpc")
	addr, _, _ := start(t, Config{Tokens: []string{goodToken}, MaxBatch: 2}, in)
	f := &fixture{T: t, client: bridgev1.NewBridgeServiceClient(dial(t, addr))}
	ctx := metadata.AppendToOutgoingContext(f.ctx(), "authorization", "Bearer "+goodToken)
	publish := func(ctx context.Context, messages ...*bridgev1.Message) {
		f.client.Publish(ctx, &bridgev1.PublishRequest{Messages: messages})
	}
	untimed := hourly("untimed")
	untimed.Delay = nil
	for _, test := range []struct {
		name string
		call func()
		want []string
	}{
		{"good, and refused by core", func() { publish(ctx, hourly("good"), hourly("no id")) }, []string{"grpc accepted good", "grpc accepted no id"}},
		{"without a time", func() { publish(ctx, hourly("next"), untimed) }, []string{"grpc refused invalid", "grpc accepted next"}},
		{"nothing", func() { publish(ctx) }, []string{"grpc refused invalid"}},
		{"too many", func() { publish(ctx, hourly("1"), hourly("2"), hourly("3")) }, []string{"grpc refused invalid"}},
		{"no token", func() { publish(f.ctx(), hourly("x")) }, []string{"grpc refused unauthorized"}},
		{"a change of nothing", func() { f.client.Cancel(ctx, &bridgev1.CancelRequest{Ref: &bridgev1.Ref{Id: "x"}}) }, []string{"grpc changed x"}},
		{"a look at nothing", func() { f.client.Get(ctx, &bridgev1.GetRequest{Ref: &bridgev1.Ref{Id: "x"}}) }, nil},
	} {
		mu.Lock()
		told = nil
		mu.Unlock()
		test.call()
		mu.Lock()
		if diff := cmp.Diff(test.want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		mu.Unlock()
	}
}
