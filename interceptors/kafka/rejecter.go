package kafkadoor

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// rejecter writes records that can't be parked to the reject topic. Safe for
// concurrent use.
type rejecter struct {
	client *kafka.Client
	topic  string
}

// The headers of a rejected record, besides those that it came with.
const (
	headerReason     = core.HeaderPrefix + "reject-reason"
	headerLeftOut    = core.HeaderPrefix + "reject-left-out"
	headerTopic      = core.HeaderPrefix + "source-topic"
	headerPartition  = core.HeaderPrefix + "source-partition"
	headerOffset     = core.HeaderPrefix + "source-offset"
	headerLastOffset = core.HeaderPrefix + "source-last-offset"
)

const (
	// maxRejectBytes bounds what is written at once; the standard limit of a
	// topic is a little more than the double.
	maxRejectBytes = 512 << 10
	recordOverhead = 512 // our headers, and what a record has around
)

// write returns nil when all of rejected, which are some of origins, are in the
// reject topic, in all replicas that are in sync.
func (r *rejecter) write(ctx context.Context, from *partition, origins []origin, rejected []intake.Rejection) error {
	to, err := r.choose(ctx, from.number)
	if err != nil {
		return err
	}
	for len(rejected) > 0 {
		n, size := 0, 0
		for n < len(rejected) && (n == 0 || size < maxRejectBytes) {
			size += origins[rejected[n].Index].size()
			n++
		}
		if n > 1 && size >= 2*maxRejectBytes { // the last is large and goes alone
			n--
		}
		if err := r.writeSome(ctx, to, from, origins, rejected[:n]); err != nil {
			return err
		}
		rejected = rejected[n:]
	}
	return nil
}

func (o *origin) size() int {
	size := recordOverhead + len(o.key) + len(o.value)
	for _, h := range o.headers {
		size += len(h.Name) + len(h.Value)
	}
	return size
}

// writeSome writes what belongs together. A record that is too large for the
// topic goes without its value, which its position leads to.
func (r *rejecter) writeSome(ctx context.Context, to int, from *partition, origins []origin, rejected []intake.Rejection) error {
	records := make([]kafka.Record, len(rejected))
	for n, one := range rejected {
		records[n] = from.rejectedRecord(&origins[one.Index], one.Reason, true)
	}
	err := r.produce(ctx, to, records)
	if len(rejected) > 1 && isTooLarge(err) {
		for n := range rejected {
			if err := r.writeSome(ctx, to, from, origins, rejected[n:n+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if isTooLarge(err) {
		err = r.produce(ctx, to, []kafka.Record{from.rejectedRecord(&origins[rejected[0].Index], rejected[0].Reason, false)})
	}
	if err != nil {
		return fmt.Errorf("write to reject topic %s: %w", r.topic, err)
	}
	return nil
}

func isTooLarge(err error) bool {
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}

func (r *rejecter) produce(ctx context.Context, to int, records []kafka.Record) error {
	answer, err := r.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: r.topic, Partition: to, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
	if err != nil {
		return err
	}
	return answer.Error
}

// choose spreads the source's partitions over those of the reject topic.
func (r *rejecter) choose(ctx context.Context, from int) (int, error) {
	answer, err := r.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{r.topic}})
	if err != nil {
		return 0, fmt.Errorf("look up reject topic %s: %w", r.topic, err)
	}
	for _, t := range answer.Topics {
		switch {
		case t.Name != r.topic:
		case t.Error != nil:
			return 0, fmt.Errorf("look up reject topic %s: %w", r.topic, t.Error)
		case len(t.Partitions) > 0:
			return from % len(t.Partitions), nil
		}
	}
	return 0, fmt.Errorf("look up reject topic %s: %w", r.topic, kafka.UnknownTopicOrPartition)
}

// rejectedRecord is a record with why it is rejected and where it came from.
func (p *partition) rejectedRecord(o *origin, reason error, withValue bool) kafka.Record {
	headers := make([]kafka.Header, 0, len(o.headers)+6)
	for _, h := range o.headers {
		headers = append(headers, kafka.Header{Key: h.Name, Value: h.Value})
	}
	add := func(name, value string) { headers = append(headers, kafka.Header{Key: name, Value: []byte(value)}) }
	add(headerReason, core.Shorten(reason.Error(), core.MaxErrorText))
	add(headerTopic, p.topic)
	add(headerPartition, strconv.Itoa(p.number))
	add(headerOffset, strconv.FormatInt(o.offset, 10))
	if o.last != o.offset {
		add(headerLastOffset, strconv.FormatInt(o.last, 10))
	}
	made := kafka.Record{Time: o.sent}
	if o.key != nil {
		made.Key = kafka.NewBytes(o.key)
	}
	if !withValue {
		add(headerLeftOut, "value")
	} else if o.value != nil {
		made.Value = kafka.NewBytes(o.value)
	}
	made.Headers = headers
	return made
}
