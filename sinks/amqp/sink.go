package amqp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/core"
)

// Open returns a Sink with the given settings, a JSON object; see the package
// documentation. It returns a *core.InvalidError if they are invalid. It opens no
// connection; the first Deliver or Health does.
func Open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	s, err := decode(config)
	if err != nil {
		return nil, err
	}
	return newSink(s), nil
}

// Sink delivers to one broker or cluster. It implements core.Sink, core.Checker
// and core.HealthChecker.
type Sink struct {
	settings
	life      context.Context // ends at Close
	end       context.CancelCauseFunc
	links     []*link
	turn      atomic.Uint32
	apart     *link // for suspects
	apartTurn chan struct{}
	suspects  suspects
}

func newSink(settings settings) *Sink {
	s := &Sink{settings: settings, apartTurn: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancelCause(context.Background())
	for range s.connections {
		s.links = append(s.links, newLink(s))
	}
	s.apart = newLink(s)
	return s
}

// Deliver publishes the batch and waits for the confirms until ctx ends.
func (s *Sink) Deliver(ctx context.Context, batch []*core.Message) error {
	d := s.newDelivery(batch)
	if d.left == 0 {
		return d.result(nil)
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	return d.result(d.run(ctx))
}

// within ends ctx at Close too, with the cause errClosed.
func (s *Sink) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// Check refuses messages that the broker can't carry.
func (s *Sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, func(m *core.Message) error {
		_, err := s.outgoing(m)
		return err
	})
}

// Health makes a round trip to the broker, on an open connection or a new one.
func (s *Sink) Health(ctx context.Context) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	session, err := s.links[0].session(ctx)
	if err != nil {
		return err
	}
	if err := session.held(); err != nil {
		return err
	}
	if err := session.ping(ctx); err != nil {
		return fmt.Errorf("ask %s: %w", session.connection.Addr, err)
	}
	return nil
}

// Diagnose implements core.Diagnoser. Topics are queues unless there is an exchange.
func (s *Sink) Diagnose(ctx context.Context, topics []string) []core.Finding {
	if s.exchange != "" {
		return s.cluster.Diagnose(ctx, nil, nil, []string{s.exchange})
	}
	return s.cluster.Diagnose(ctx, nil, topics, nil)
}

// Close closes the connections. The outcome of messages in flight becomes unknown.
func (s *Sink) Close() error {
	s.end(errClosed)
	var group sync.WaitGroup
	for _, l := range slices.Concat(s.links, []*link{s.apart}) {
		group.Go(l.close)
	}
	group.Wait()
	return nil
}
