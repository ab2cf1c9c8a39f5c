package rocketmqsource

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// rejecter writes messages that can't be parked to the reject topic. Safe for
// concurrent use.
type rejecter struct {
	pool  *pool
	topic string
	group string
}

// The properties of a rejected message, besides those that it came with.
const (
	propertyReason  = core.HeaderPrefix + "reject-reason"
	propertyLeftOut = core.HeaderPrefix + "reject-left-out"
	propertyTopic   = core.HeaderPrefix + "source-topic"
	propertyBroker  = core.HeaderPrefix + "source-broker"
	propertyQueue   = core.HeaderPrefix + "source-queue"
	propertyOffset  = core.HeaderPrefix + "source-offset"
)

const (
	// maxRejectBytes bounds what is written at once, but for a single message;
	// brokers take 4 MiB unless set otherwise.
	maxRejectBytes = 1 << 20
	rejectOverhead = 1 << 10   // our properties, and lengths
	maxProperties  = 1<<15 - 1 // bytes of all of a message
)

var errNoQueue = errors.New("no queue of the reject topic can be written to")

// write returns nil when all of rejected, which are some of records, are stored
// by the reject topic's broker.
func (j *rejecter) write(ctx context.Context, from place, records []record, rejected []source.Rejection) error {
	r, err := j.pool.route(ctx, j.topic)
	if err != nil {
		return err
	}
	queues := queuesOf(r, j.topic, rocketmq.PermWrite)
	if len(queues) == 0 {
		return fmt.Errorf("write to reject topic %s: %w", j.topic, errNoQueue)
	}
	to := queues[from.number%len(queues)]
	for len(rejected) > 0 {
		n := together(records, rejected)
		if err := j.writeSome(ctx, to, from, records, rejected[:n]); err != nil {
			return fmt.Errorf("write to reject topic %s: %w", j.topic, err)
		}
		rejected = rejected[n:]
	}
	return nil
}

// together is how many of rejected can go in one request: those whose bodies are
// compressed alike, as the request says it for all.
func together(records []record, rejected []source.Rejection) int {
	size := 0
	first := &records[rejected[0].Index]
	for n, one := range rejected {
		r := &records[one.Index]
		size += rejectOverhead + len(r.body) + len(r.properties)
		if n > 0 && (size > maxRejectBytes || (r.flags^first.flags)&flagsOfBody != 0) {
			return n
		}
	}
	return len(rejected)
}

// writeSome writes what belongs together. A message that is too large for the
// topic goes without its body, which its position leads to.
func (j *rejecter) writeSome(ctx context.Context, to, from place, records []record, rejected []source.Rejection) error {
	var body []byte
	for _, one := range rejected {
		body = appendRejected(body, from, &records[one.Index], one.Reason, true)
	}
	flags := records[rejected[0].Index].flags & flagsOfBody
	err := j.send(ctx, to, body, flags)
	switch {
	case !isTooLarge(err):
		return err
	case len(rejected) == 1:
		return j.send(ctx, to, appendRejected(nil, from, &records[rejected[0].Index], rejected[0].Reason, false), 0)
	}
	for n := range rejected {
		if err := j.writeSome(ctx, to, from, records, rejected[n:n+1]); err != nil {
			return err
		}
	}
	return nil
}

// isTooLarge: 4.x has a code for it, 5.x reports an exception.
func isTooLarge(err error) bool {
	return rocketmq.HasCode(err, rocketmq.CodeIllegal) || rocketmq.HasCode(err, rocketmq.CodeSystemError) && strings.Contains(err.Error(), "size exceeded")
}

// send sends messages as a batch, be it of one: in batches brokers act on none of
// the properties that ask for a delay. What is stored but not flushed or
// replicated in time counts as written: what it was made of is no safer.
func (j *rejecter) send(ctx context.Context, to place, batch []byte, flags uint32) error {
	fields := map[string]string{
		"a": j.group, "b": j.pool.cluster.OnWire(j.topic), "c": "TBW102", "d": "4", "e": strconv.Itoa(to.number),
		"f": strconv.FormatUint(uint64(flags), 10), "g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0",
		"i": "WAIT\x01true\x02", "j": "0", "k": "false", "l": "0", "m": "true", "n": to.broker}
	_, err := j.pool.askBroker(ctx, to.broker, rocketmq.Command{Code: rocketmq.RequestSendBatch, Fields: fields, Body: batch})
	if rocketmq.HasCode(err, rocketmq.CodeFlushDisk, rocketmq.CodeFlushReplica, rocketmq.CodeReplicaMissing) {
		return nil
	}
	return err
}

// appendRejected adds a message to a batch: total length, magic, checksum and
// flag, which are zero, body and properties with their lengths.
func appendRejected(batch []byte, from place, r *record, reason error, withBody bool) []byte {
	properties, body := rejectedProperties(from, r, reason, withBody), r.body
	if !withBody {
		body = nil
	}
	batch = binary.BigEndian.AppendUint32(batch, uint32(22+len(body)+len(properties)))
	batch = append(batch, make([]byte, 12)...)
	batch = binary.BigEndian.AppendUint32(batch, uint32(len(body)))
	batch = append(batch, body...)
	batch = binary.BigEndian.AppendUint16(batch, uint16(len(properties)))
	return append(batch, properties...)
}

// rejectedProperties are those that the message came with, and where it came
// from and why it is here. Where that is too much, its own are left out.
func rejectedProperties(from place, r *record, reason error, withBody bool) []byte {
	var left []string
	if !withBody {
		left = append(left, "body")
	}
	ours := func() (added []byte) {
		add := func(name, value string) {
			added = append(append(append(append(added, name...), propertyBegin), value...), propertyEnd)
		}
		add(propertyReason, plain(core.Shorten(reason.Error(), core.MaxErrorText)))
		add(propertyTopic, from.topic)
		add(propertyBroker, from.broker)
		add(propertyQueue, strconv.Itoa(from.number))
		add(propertyOffset, strconv.FormatInt(r.offset, 10))
		if left != nil {
			add(propertyLeftOut, strings.Join(left, ","))
		}
		return added
	}
	own := r.properties
	if n := len(own); n > 0 && own[n-1] != propertyEnd {
		own = append(own[:n:n], propertyEnd)
	}
	if added := ours(); len(own)+len(added) <= maxProperties-rejectOverhead {
		return append(own[:len(own):len(own)], added...)
	}
	left = append(left, "properties")
	return ours()
}

// plain has nothing in it that separates properties.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == propertyBegin || r == propertyEnd {
			return ' '
		}
		return r
	}, text)
}
