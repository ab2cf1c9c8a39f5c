package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
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
	// maxRecordBytes bounds a record that is written whole: what is larger may not
	// get through within the request's timeout, however often it is tried.
	maxRecordBytes = 16 << 20
)

// form is how much of a record is written. Each is smaller than the one before,
// and the last fits into every topic.
type form int

const (
	whole form = iota
	withoutValue
	positionOnly
)

// write returns nil when all of rejected, which are some of origins, are in the
// reject topic, in all replicas that are in sync.
func (r *rejecter) write(ctx context.Context, from *partition, origins []origin, rejected []source.Rejection) error {
	to, err := r.choose(ctx, from.number)
	if err != nil {
		return err
	}
	for len(rejected) > 0 {
		n, size := 0, 0
		for n < len(rejected) && (n == 0 || size < maxRejectBytes) {
			o := &origins[rejected[n].Index]
			size += o.size(o.largest())
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

// largest is the form to try first.
func (o *origin) largest() form {
	f := whole
	for f < positionOnly && o.size(f) > maxRecordBytes {
		f++
	}
	return f
}

func (o *origin) size(f form) int {
	size := recordOverhead
	if f == positionOnly {
		return size
	}
	if f == whole {
		size += len(o.value)
	}
	size += len(o.key)
	for _, h := range o.headers {
		size += len(h.Name) + len(h.Value)
	}
	return size
}

// writeSome writes what belongs together, or else one by one.
func (r *rejecter) writeSome(ctx context.Context, to int, from *partition, origins []origin, rejected []source.Rejection) error {
	if len(rejected) > 1 {
		records := make([]kafka.Record, len(rejected))
		for n, one := range rejected {
			o := &origins[one.Index]
			records[n] = from.rejectedRecord(o, one.Reason, o.largest())
		}
		if err := r.produce(ctx, to, records...); !isTooLargeThere(err) {
			return err
		}
	}
	for _, one := range rejected {
		if err := r.writeOne(ctx, to, from, &origins[one.Index], one.Reason); err != nil {
			return err
		}
	}
	return nil
}

// writeOne leaves out what is too large for the topic; the record's position
// leads to it.
func (r *rejecter) writeOne(ctx context.Context, to int, from *partition, o *origin, reason error) error {
	f := o.largest()
	err := r.produce(ctx, to, from.rejectedRecord(o, reason, f))
	for isTooLargeThere(err) && f < positionOnly {
		f++
		err = r.produce(ctx, to, from.rejectedRecord(o, reason, f))
	}
	return err
}

func isTooLargeThere(err error) bool {
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}

func (r *rejecter) produce(ctx context.Context, to int, records ...kafka.Record) error {
	answer, err := r.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: r.topic, Partition: to, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return fmt.Errorf("write to reject topic %s: %w", r.topic, err)
	}
	return nil
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

// rejectedRecord is a record, or a part of it, with why it is rejected and where
// it came from.
func (p *partition) rejectedRecord(o *origin, reason error, f form) kafka.Record {
	made := kafka.Record{Time: o.sent}
	if f != positionOnly {
		made.Headers = make([]kafka.Header, 0, len(o.headers)+6)
		for _, h := range o.headers {
			made.Headers = append(made.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		if o.key != nil {
			made.Key = kafka.NewBytes(o.key)
		}
	}
	if f == whole && o.value != nil {
		made.Value = kafka.NewBytes(o.value)
	}
	add := func(name, value string) {
		made.Headers = append(made.Headers, kafka.Header{Key: name, Value: []byte(value)})
	}
	add(headerReason, core.Shorten(reason.Error(), core.MaxErrorText))
	add(headerTopic, p.topic)
	add(headerPartition, strconv.Itoa(p.number))
	add(headerOffset, strconv.FormatInt(o.offset, 10))
	if o.last != o.offset {
		add(headerLastOffset, strconv.FormatInt(o.last, 10))
	}
	if left := o.leftOut(f); left != "" {
		add(headerLeftOut, left)
	}
	return made
}

// leftOut names what a form of a record lacks.
func (o *origin) leftOut(f form) string {
	switch {
	case f == positionOnly:
		return "key,value,headers"
	case f == withoutValue && o.crowded:
		return "value,headers"
	case f == withoutValue:
		return "value"
	case o.crowded:
		return "headers"
	}
	return ""
}
