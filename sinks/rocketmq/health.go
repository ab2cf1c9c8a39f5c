package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

var (
	errNoBroker     = errors.New("no broker is registered at the name servers")
	errUnregistered = errors.New("broker is not registered at the name servers")
)

// nameServerTimeout is how long one of several name servers may take.
const nameServerTimeout = time.Second

func (s *Sink) askNameServer(ctx context.Context, address string, request rocketmq.Command) (*rocketmq.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, nameServerTimeout)
	defer cancel()
	return s.settings.cluster.AskOnce(ctx, address, request)
}

// Health returns nil if a name server and at least one master broker respond within
// send_timeout. It does not check the credentials.
func (s *Sink) Health(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.sendTimeout())
	defer cancel()
	masters, err := s.settings.cluster.Masters(ctx, s.askNameServer)
	if err != nil {
		return err
	}
	if len(masters) == 0 {
		return errNoBroker
	}
	return s.anyAlive(ctx, masters)
}

// Diagnose implements core.Diagnoser.
func (s *Sink) Diagnose(ctx context.Context, topics []string) []core.Finding {
	return s.settings.cluster.Diagnose(ctx, topics)
}

// anyAlive asks all at once, so that one that hangs does not hide another.
func (s *Sink) anyAlive(ctx context.Context, brokers map[string]string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(brokers))
	for _, address := range brokers {
		go func() { answers <- s.alive(ctx, address) }()
	}
	var failed error
	for range brokers {
		err := <-answers
		if err == nil {
			return nil
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return fmt.Errorf("no broker answers: %w", failed)
}

// alive is nil if the broker answers, be it with a refusal.
func (s *Sink) alive(ctx context.Context, broker string) error {
	_, err := s.settings.cluster.AskOnce(ctx, broker, rocketmq.Heartbeat())
	return err
}

// tryBroker is nil if the broker answers or nobody can tell where it is.
func (s *Sink) tryBroker(name string) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.sendTimeout())
	defer cancel()
	masters, err := s.settings.cluster.Masters(ctx, s.askNameServer)
	if err != nil {
		return nil
	}
	s.brokers.keep(masters)
	address, known := masters[name]
	if !known {
		return errUnregistered
	}
	return s.alive(ctx, address)
}
