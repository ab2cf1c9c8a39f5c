package rocketmq

import (
	"context"
	"errors"
	"sync"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// questions are the topics whose queues the library is looking for. One at a
// time for each topic, as they may hang longer than those who ask.
type questions struct {
	mu   sync.Mutex
	open map[string]<-chan struct{}
}

// ask runs question unless one for topic runs already, and returns a channel
// that is closed at its end.
func (q *questions) ask(topic string, question func()) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if answered, open := q.open[topic]; open {
		return answered
	}
	if q.open == nil {
		q.open = map[string]<-chan struct{}{}
	}
	answered := make(chan struct{})
	q.open[topic] = answered
	go func() {
		defer close(answered)
		question()
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, topic)
	}()
	return answered
}

var (
	errNoTopic    = errors.New("topic does not exist, or its broker is unreachable")
	errNotWritten = errors.New("no queue of the topic can be written to")
	errNoAnswer   = errors.New("client library did not find the topic's queues in time")
)

// routeOf returns the queues of topic. The library alone can tell them, but not
// why there are none, so a name server is asked first.
func (s *Sink) routeOf(ctx context.Context, topic string) (*route, *failure) {
	if known := s.routes.of(topic); known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.sendTimeout())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	_, err := s.settings.cluster.Route(ctx, topic, s.askNameServer)
	missing := rocketmq.HasCode(err, rocketmq.CodeNoTopic)
	if err != nil && !missing {
		return nil, fail(core.Retry, ofSink, err)
	}
	select {
	case <-s.questions.ask(topic, func() { s.learn(topic) }):
	case <-ctx.Done():
		return nil, fail(core.Retry, ofSink, errNoAnswer)
	}
	if found := s.routes.of(topic); found != nil {
		return found, nil
	}
	return nil, s.explain(ctx, missing)
}

func (s *Sink) learn(topic string) {
	if p, err := s.begin(); err == nil {
		p.learn(topic)
	}
}

// explain reports why a topic has no queues. A name server forgets the topics of
// a broker with the broker, so one that is missing may be the cluster's trouble.
func (s *Sink) explain(ctx context.Context, missing bool) *failure {
	if s.ctx.Err() != nil {
		return fail(core.Retry, ofSink, errClosed)
	}
	if !missing {
		return fail(core.TopicBlocked, ofMessages, errNotWritten)
	}
	masters, err := s.settings.cluster.Masters(ctx, s.askNameServer)
	switch {
	case err != nil:
		return fail(core.Retry, ofSink, err)
	case len(masters) == 0:
		return fail(core.Retry, ofSink, errNoBroker)
	}
	return fail(core.TopicBlocked, ofMessages, errNoTopic)
}
