package rocketmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	clienterrors "github.com/apache/rocketmq-client-go/v2/errors"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/core"
)

// Deliver sends the batch: one request for the messages of each queue, several
// if they are large, and as many at once to a broker as it has workers. A request
// that is refused because of one message is sent again in halves.
//
// What is of one broker only, while others of the cluster work, counts as
// TopicBlocked: its messages go back without an attempt spent.
func (s *Sink) Deliver(ctx context.Context, batch []*core.Message) error {
	d := &delivery{Sink: s, failures: make([]*failure, len(batch))}
	var group sync.WaitGroup
	for topic, messages := range d.prepare(batch) {
		group.Go(func() { d.toTopic(ctx, topic, messages) })
	}
	group.Wait()
	return result(d.failures)
}

// delivery is one Deliver. Its goroutines write to different failures.
type delivery struct {
	*Sink
	failures []*failure // of each message; nil is confirmed
}

// prepare groups what can be sent by topic.
func (d *delivery) prepare(batch []*core.Message) map[string][]*outgoing {
	byTopic := map[string][]*outgoing{}
	for n, m := range batch {
		o, err := d.settings.prepare(n, m)
		if err != nil {
			d.failures[n] = fail(core.Permanent, ofMessages, err)
			continue
		}
		topic := d.settings.cluster.OnWire(m.Topic)
		byTopic[topic] = append(byTopic[topic], o)
	}
	return byTopic
}

func (d *delivery) failed(messages []*outgoing, f *failure) {
	for _, o := range messages {
		d.failures[o.index] = f
	}
}

func (d *delivery) toTopic(ctx context.Context, topic string, messages []*outgoing) {
	route, f := d.routeOf(ctx, topic)
	if f != nil {
		d.failed(messages, fail(f.class, f.reach, fmt.Errorf("find topic %s: %w", topic, f.err)))
		return
	}
	var group sync.WaitGroup
	for queue, messages := range d.share(route, messages) {
		group.Go(func() { d.toQueue(ctx, route, queue, messages) })
	}
	group.Wait()
}

// minLoose is how few messages without a key are worth a request of their own.
const minLoose = 64

// share spreads messages over the queues of route: by key, or evenly over the
// workers if they have none.
func (d *delivery) share(route *route, messages []*outgoing) map[*primitive.MessageQueue][]*outgoing {
	byQueue := map[*primitive.MessageQueue][]*outgoing{}
	loose := make([]*outgoing, 0, len(messages))
	for _, o := range messages {
		key, ok := queueKey(o.source)
		if !ok {
			loose = append(loose, o)
			continue
		}
		queue := route.forKey(key)
		byQueue[queue] = append(byQueue[queue], o)
	}
	each := max(minLoose, (len(loose)+d.settings.workers-1)/d.settings.workers)
	for some := range slices.Chunk(loose, each) {
		queue := route.next(d.brokers)
		byQueue[queue] = append(byQueue[queue], some...)
	}
	return byQueue
}

// toQueue sends messages to one queue in order, in requests of bounded size.
// When it can't continue, those that are left fail as well.
func (d *delivery) toQueue(ctx context.Context, route *route, queue *primitive.MessageQueue, messages []*outgoing) {
	target := &target{queue: queue, route: route}
	for len(messages) > 0 {
		n := d.fitting(messages)
		if f := d.toTarget(ctx, target, messages[:n]); f != nil {
			d.failed(messages[n:], f)
			return
		}
		messages = messages[n:]
	}
}

// fitting returns how many of messages fit into one request: at least one.
func (d *delivery) fitting(messages []*outgoing) int {
	total := 0
	for n, o := range messages {
		if total += o.bytes(); total > d.settings.maxBatchBytes && n > 0 {
			return n
		}
	}
	return len(messages)
}

// toTarget sends one request, or two halves if it is refused for a message in
// it. It returns what the messages after these fail with, nil if they may be
// sent.
func (d *delivery) toTarget(ctx context.Context, t *target, messages []*outgoing) *failure {
	f := d.request(ctx, t, messages)
	if f != nil && f.oneOfMany && len(messages) > 1 {
		half := len(messages) / 2
		if rest := d.toTarget(ctx, t, messages[:half]); rest != nil {
			d.failed(messages[half:], rest)
			return rest
		}
		return d.toTarget(ctx, t, messages[half:])
	}
	d.failed(messages, f)
	return f.forTheRest()
}

// target is a queue and the route that it is of.
type target struct {
	queue *primitive.MessageQueue
	route *route
}

func (t *target) String() string {
	return fmt.Sprintf("topic %s, broker %s, queue %d", t.queue.Topic, t.queue.BrokerName, t.queue.QueueId)
}

// request makes one request, when a worker is free, or goes along with another.
// What was refused permanently in company is sent again without: it may be the
// fault of another Deliver's message.
func (d *delivery) request(ctx context.Context, t *target, messages []*outgoing) *failure {
	if f := d.admit(ctx, t); f != nil {
		return d.classify(t, f)
	}
	if sociable(messages) {
		f, shared := d.together(ctx, t, newBatch(messages))
		if f == nil || !shared || f.class != core.Permanent {
			return d.classify(t, f)
		}
	}
	return d.classify(t, d.alone(ctx, t, newBatch(messages)))
}

// admit returns nil if the broker may be sent to, else what comes of it that
// nothing is sent. Where others work, nobody waits for one that does not.
func (s *Sink) admit(ctx context.Context, t *target) *failure {
	broker := t.queue.BrokerName
	if s.brokers.works(broker) {
		return nil
	}
	others := t.route.othersWork(broker, s.brokers)
	err := s.brokers.confirm(ctx, broker, others)
	switch {
	case err == nil:
		return nil
	case others:
		return fail(core.TopicBlocked, ofMessages, err)
	}
	return fail(core.Retry, ofBroker, err)
}

// send makes one request of a batch as it is on the wire. The caller has a
// worker, for which it may have waited until the broker had failed.
func (s *Sink) send(ctx context.Context, t *target, batch []byte) *failure {
	if f := s.admit(ctx, t); f != nil {
		return f
	}
	p, err := s.begin()
	if err != nil {
		return fail(core.Retry, ofSink, err)
	}
	message := &primitive.Message{Topic: t.queue.Topic, Queue: t.queue, Body: batch, Batch: true}
	result, err := p.send(ctx, s.sendTimeout(), message)
	if errors.Is(err, errHanging) || errors.Is(err, clienterrors.ErrRequestTimeout) && ctx.Err() == nil {
		s.leaveBehind(p) // its connection may be dead although the broker is not
	}
	return s.settings.failureOf(result, err)
}

// classify remembers how the broker fares, and reports whether its trouble is the
// cluster's.
func (d *delivery) classify(t *target, f *failure) *failure {
	broker := t.queue.BrokerName
	if f == nil {
		d.brokers.note(broker, true)
		return nil
	}
	classified := *f
	classified.err = fmt.Errorf("send to %s: %w", t, f.err)
	if f.reach != ofBroker {
		return &classified
	}
	if !errors.Is(f.err, errRouteGone) {
		d.brokers.note(broker, false)
	}
	classified.reach = ofSink
	if t.route.othersWork(broker, d.brokers) {
		classified.reach = ofMessages
		classified.rest = true
		if f.class == core.Retry {
			classified.class = core.TopicBlocked
		}
	}
	return &classified
}

// severity orders the classes that a sink as a whole may fail with.
var severity = map[core.Class]int{core.Retry: 1, core.Blocked: 2, core.Unknown: 3}

// result is what Deliver returns: one error if nothing but the sink's own
// trouble is in the way, else a result for each message.
func result(failures []*failure) error {
	var wide []*failure
	results, failed := make(core.BatchError, len(failures)), false
	for n, f := range failures {
		if f == nil {
			continue
		}
		failed = true
		results[n] = core.Classify(f.class, f.err)
		if f.reach == ofSink {
			wide = append(wide, f)
		}
	}
	switch {
	case !failed:
		return nil
	case len(wide) < len(failures):
		return results
	}
	worst := slices.MaxFunc(wide, func(a, b *failure) int { return cmp.Compare(severity[a.class], severity[b.class]) })
	return core.Classify(worst.class, worst.err)
}
