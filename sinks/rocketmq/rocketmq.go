package rocketmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

var (
	errClosed  = errors.New("rocketmq sink is closed")
	errHangers = errors.New("too many producers hang in the client library")
	// errNotStarted: nothing was sent when ctx ended.
	errNotStarted = errors.New("no worker was free in time")
)

// Open returns a Sink with the given settings in JSON. It returns a *core.InvalidError
// if they are invalid. It opens no connection; Deliver and Health report whether the
// cluster can be reached.
func Open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	s, err := decode(config)
	if err != nil {
		return nil, err
	}
	return newSink(s), nil
}

// Sink sends messages to RocketMQ. It implements core.Sink, core.Checker and
// core.HealthChecker.
type Sink struct {
	settings *settings
	brokers  *brokers
	batches  *batches // what waits for a worker

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	producer *producer // nil until the first message, and after it was left behind
	left     int       // producers left behind that have not been shut down
	endings  sync.WaitGroup

	routes    *routes
	questions questions

	closeTimeout time.Duration // bounds Close
}

// maxLeft bounds the producers that were left behind and not yet shut down.
const maxLeft = 8

func newSink(made settings) *Sink {
	s := &Sink{settings: &made, routes: newRoutes(), batches: newBatches(), closeTimeout: closeTimeout}
	s.brokers = newBrokers(s.tryBroker, made.workers)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *Sink) sendTimeout() time.Duration { return s.settings.cluster.Timeout }

// begin returns the producer for one send, which must follow.
func (s *Sink) begin() (*producer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if s.producer == nil {
		if s.left >= maxLeft {
			return nil, errHangers
		}
		fresh, err := newProducer(s.ctx, &s.settings.cluster, s.routes)
		if err != nil {
			return nil, err
		}
		s.producer = fresh
	}
	s.producer.begin()
	return s.producer, nil
}

// leaveBehind takes a producer out of use, if it still is in use, and ends it
// when its other calls have had their time.
func (s *Sink) leaveBehind(p *producer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.producer != p || s.ctx.Err() != nil {
		return
	}
	s.producer = nil
	s.left++
	s.endings.Go(func() {
		patience, cancel := context.WithTimeout(s.ctx, s.sendTimeout())
		defer cancel()
		p.shutDown(patience.Done())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.left--
	})
}

// closeTimeout bounds Close, but in tests.
const closeTimeout = 2 * time.Second

// Close ends all sends, whose outcome is then unknown, and closes the connections. It
// returns within two seconds. It may be called twice.
func (s *Sink) Close() error {
	s.mu.Lock()
	if s.ctx.Err() == nil {
		s.cancel()
		if p := s.producer; p != nil {
			s.endings.Go(func() { p.shutDown(after(returnGrace)) })
		}
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.endings.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-after(s.closeTimeout):
		return fmt.Errorf("close rocketmq sink: producers did not end within %s", s.closeTimeout)
	}
}

// after is closed when d is over.
func after(d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(d, func() { close(over) })
	return over
}
