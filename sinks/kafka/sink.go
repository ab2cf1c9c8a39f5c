package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// Sink delivers to one Kafka cluster. See the package documentation.
type Sink struct {
	client      *client
	cluster     *cluster
	partitioner partitioner
	troubles    troubles
}

var (
	_ core.Sink          = (*Sink)(nil)
	_ core.Checker       = (*Sink)(nil)
	_ core.HealthChecker = (*Sink)(nil)
	_ core.Diagnoser     = (*Sink)(nil)
	_ core.OpenFunc      = Open
)

// Open returns a Sink; it is a core.OpenFunc. It opens no connection. Its errors are
// *core.InvalidError and name the setting.
func Open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	s, err := decode(config)
	if err != nil {
		return nil, err
	}
	return newSink(s), nil
}

func newSink(s settings) *Sink {
	c := newClient(s)
	return &Sink{client: c, cluster: newCluster(c)}
}

// Close closes all connections; calls in progress fail, with class Unknown for messages
// that may have been sent. It returns within seconds.
func (s *Sink) Close() error { return s.client.close() }

// Health requests the metadata from a broker; nil means that one has answered.
func (s *Sink) Health(ctx context.Context) error {
	_, err := s.cluster.lookup(ctx, nil, true)
	return err
}

// Diagnose implements core.Diagnoser.
func (s *Sink) Diagnose(ctx context.Context, topics []string) []core.Finding {
	return s.client.Diagnose(ctx, topics, "")
}

// optionPartition is the option of a message that names its partition.
const optionPartition = "partition"

// Check refuses topics that are not 1 to 249 of A-Z a-z 0-9 . _ -, topics of Kafka
// itself (they begin with two underscores), messages larger than max_message_bytes, and
// options other than "partition".
func (s *Sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, s.check)
}

func (s *Sink) check(m *core.Message) error {
	if err := kafkaconn.CheckTopic("topic", m.Topic); err != nil {
		return err
	}
	if strings.HasPrefix(m.Topic, "__") {
		return core.Invalidf("topic", "begins with two underscores, which are reserved for Kafka's own topics")
	}
	for name, value := range m.Options {
		switch {
		case strings.HasPrefix(name, core.OptionPrefix):
		case name != optionPartition:
			return core.Invalidf("options."+core.Shorten(name, 64), "is not known to a Kafka sink; known is partition")
		default:
			if _, err := strconv.ParseUint(value, 10, 31); err != nil {
				return core.Invalidf("options."+optionPartition, "must be a number from 0")
			}
		}
	}
	if size := acceptedSize(m); size > s.client.maxBatchBytes {
		return &core.InvalidError{Field: "body", TooLarge: true,
			Reason: "makes the message, with key and headers, larger than " + strconv.Itoa(s.client.maxBatchBytes) + " bytes"}
	}
	return nil
}

// Deliver sends the batch. Messages that a broker refused because it no longer leads
// the partition are sent again, to the new leader.
func (s *Sink) Deliver(ctx context.Context, batch []*core.Message) error {
	d := newDelivery(batch)
	places := make([]int, len(batch))
	for n := range places {
		places[n] = n
	}
	p := s.newPlan(batch, d)
	for try := 0; len(places) > 0; try++ {
		topics, err := s.cluster.lookup(ctx, topicsOf(batch, places), try > 0)
		switch {
		case err == nil:
		case try == 0:
			return failedLookup(err)
		default: // no broker is better off: the results stand
			return d.result()
		}
		if try > 0 {
			places = s.troubles.bearable(d, places, topics)
			if len(places) == 0 || !s.backOff(ctx, try) {
				break
			}
		}
		if !s.send(ctx, d, p.assign(topics, places)) {
			break
		}
		places = d.rerouted()
	}
	s.troubles.forget(d)
	return d.result()
}

// failedLookup is the error for a batch of which nothing was sent, as no broker
// could be asked where it belongs.
func failedLookup(err error) error {
	v := unsent(err)
	if c, ok := errors.AsType[*connectError](err); ok {
		v.class = c.class
	}
	return v.classified()
}

// send hands the chunks to their lanes and waits for them; false if ctx ended.
func (s *Sink) send(ctx context.Context, d *delivery, a assignment) bool {
	d.expect(a.places)
	for lane, chunks := range a.chunks {
		lane.submit(chunks...)
	}
	if d.wait(ctx) {
		return true
	}
	for lane := range a.chunks {
		lane.drop(d)
	}
	return false
}

const (
	firstBackOff = 20 * time.Millisecond
	maxBackOff   = 250 * time.Millisecond
)

// backOff waits before another round; false if ctx or the sink ended.
func (s *Sink) backOff(ctx context.Context, try int) bool {
	timer := time.NewTimer(min(firstBackOff<<min(try-1, 10), maxBackOff))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.client.ctx.Done():
	}
	return false
}

func topicsOf(batch []*core.Message, places []int) []string {
	var names []string
	seen := make(map[string]bool, 1)
	for _, n := range places {
		if name := batch[n].Topic; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
