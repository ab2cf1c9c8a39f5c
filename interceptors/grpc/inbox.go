package grpclistener

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// inbox holds the requests of one stream between the goroutine that reads them
// and the one that has them stored. It takes requests as long as it has not
// reached its bounds, so it exceeds them by one request at most.
type inbox struct {
	maxMessages, maxBytes int

	mu              sync.Mutex
	requests        []*bridgev1.PublishStreamRequest
	messages, bytes int
	err             error         // why no more come
	arrived         chan struct{} // has room for one: there are requests, or err is set
	emptied         chan struct{} // has room for one: take was called
}

func newInbox(maxMessages, maxBytes int) *inbox {
	return &inbox{maxMessages: maxMessages, maxBytes: maxBytes,
		arrived: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
}

// put adds a request as soon as there is room; false if it is not to be read on.
func (i *inbox) put(ctx context.Context, request *bridgev1.PublishStreamRequest) bool {
	for {
		switch added, ended := i.add(request); {
		case ended:
			return false
		case added:
			signal(i.arrived)
			return true
		}
		select {
		case <-i.emptied:
		case <-ctx.Done():
			return false
		}
	}
}

func (i *inbox) add(request *bridgev1.PublishStreamRequest) (added, ended bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil || i.messages >= i.maxMessages || i.bytes >= i.maxBytes || len(i.requests) >= i.maxMessages {
		return false, i.err != nil
	}
	i.requests = append(i.requests, request)
	i.messages += len(request.Messages)
	i.bytes += proto.Size(request) // with unknown fields, which are kept too
	return true, false
}

// end reports that no more come, and why. The first to tell is heard.
func (i *inbox) end(err error) {
	i.mu.Lock()
	if i.err == nil {
		i.err = err
	}
	i.mu.Unlock()
	signal(i.arrived)
	signal(i.emptied)
}

// take returns all requests that have arrived, waiting for one if there is none;
// or none and the error that end was told. When stop or the timer fires, it ends
// the inbox with the error given.
func (i *inbox) take(stop <-chan struct{}, timer <-chan time.Time, stopped error) ([]*bridgev1.PublishStreamRequest, error) {
	for {
		select {
		case <-i.arrived:
		case <-stop:
			i.end(stopped)
		case <-timer:
			i.end(stopped)
		}
		if requests, err := i.all(); len(requests) > 0 || err != nil {
			return requests, err
		}
	}
}

// all empties the inbox. The error comes when it is empty, again and again.
func (i *inbox) all() ([]*bridgev1.PublishStreamRequest, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	requests := i.requests
	i.requests, i.messages, i.bytes = nil, 0, 0
	if i.err != nil {
		signal(i.arrived)
	}
	if len(requests) > 0 {
		signal(i.emptied)
		return requests, nil
	}
	return nil, i.err
}

// signal wakes whoever waits, or the next that will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
