package grpclistener

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

var (
	errOver    = errors.New("over")
	errStopped = errors.New("stopped")
)

func requestOf(sequence uint64, messages int) *bridgev1.PublishStreamRequest {
	r := &bridgev1.PublishStreamRequest{Sequence: sequence}
	for range messages {
		r.Messages = append(r.Messages, hourly(""))
	}
	return r
}

func TestInboxHoldsUpWhenFull(t *testing.T) {
	tests := map[string]struct {
		maxMessages, maxBytes, each int
		want                        int
	}{
		"messages":       {5, 1 << 20, 2, 3},
		"bytes":          {1000, 1, 1, 1},
		"empty requests": {4, 1 << 20, 0, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := newInbox(test.maxMessages, test.maxBytes)
				put := 0
				go func() {
					for n := range 10 {
						if !in.put(t.Context(), requestOf(uint64(n), test.each)) {
							t.Error("ended")
						}
						put++
					}
					in.end(errOver)
				}()
				synctest.Wait()
				if put != test.want {
					t.Errorf("%d requests were taken, want %d", put, test.want)
				}
				for got := uint64(0); ; {
					requests, err := in.take(nil, nil, errStopped)
					if err != nil {
						if got != 10 || err != errOver {
							t.Errorf("ended after %d with %v", got, err)
						}
						return
					}
					for _, r := range requests {
						if r.Sequence != got {
							t.Fatalf("got %d, want %d", r.Sequence, got)
						}
						got++
					}
				}
			})
		})
	}
}

func TestInboxStops(t *testing.T) {
	for name, fire := range map[string]func(stop chan struct{}, timer chan time.Time){
		"stop":  func(stop chan struct{}, _ chan time.Time) { close(stop) },
		"timer": func(_ chan struct{}, timer chan time.Time) { timer <- time.Time{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, stop, timer := newInbox(1, 1<<20), make(chan struct{}), make(chan time.Time, 1)
				ended := make(chan error)
				go func() { _, err := in.take(stop, timer, errStopped); ended <- err }()
				synctest.Wait()
				fire(stop, timer)
				if err := <-ended; err != errStopped {
					t.Errorf("got %v", err)
				}
				if in.put(t.Context(), requestOf(1, 1)) {
					t.Error("a request was taken after the end")
				}
				in.end(errOver)
				if requests, err := in.take(nil, nil, nil); requests != nil || err != errStopped {
					t.Errorf("got %v %v", requests, err)
				}
			})
		})
	}
}

// What is there when the end comes is not lost, and comes before it.
func TestInboxEndsWhenItIsEmpty(t *testing.T) {
	in := newInbox(2, 1<<20)
	in.put(t.Context(), requestOf(1, 1))
	in.end(errOver)
	if requests, err := in.take(nil, nil, nil); len(requests) != 1 || err != nil {
		t.Errorf("got %v %v", requests, err)
	}
	for range 2 {
		if requests, err := in.take(nil, nil, nil); requests != nil || err != errOver {
			t.Errorf("got %v %v", requests, err)
		}
	}
}

func TestInboxLetsGoOfAStreamThatEnds(t *testing.T) {
	in := newInbox(1, 1)
	in.put(t.Context(), requestOf(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if in.put(ctx, requestOf(2, 1)) {
		t.Error("there was no room")
	}
}
