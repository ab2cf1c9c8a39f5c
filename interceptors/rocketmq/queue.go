package rocketmqsource

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// queue is one queue that is ours. One goroutine fetches, another parks.
type queue struct {
	*member
	place
	id       string // begins the IDs of its messages
	backlog  *backlog
	troubles source.Troubles // of fetching

	source.Position
	begun atomic.Bool // Parked is known
}

func newQueue(m *member, p place) *queue {
	return &queue{member: m, place: p, backlog: newBacklog(), id: sourceID(m.name, p),
		troubles: source.Troubles{Of: m.parker, Log: m.log.With("source", m.name, "topic", p.topic, "broker", p.broker, "queue", p.number)}}
}

// timeLen is room for the time that goes into IDs besides the offset.
const timeLen = 12

// sourceID begins the IDs of a queue's messages: with what source.SourceID
// makes, if there is room for the time too.
func sourceID(name string, p place) string {
	id := source.PlaceID("r", name, p.topic, p.broker, strconv.Itoa(p.number))
	if len(id) > core.MaxIDLen-20-timeLen {
		id = source.PlaceID("r", id, "\x00") // which makes a hash of it
	}
	return id + ":"
}

// run reads and parks until ctx ends; nil then.
func (q *queue) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var fetching sync.WaitGroup
	fetching.Go(func() { q.fetch(ctx) })
	err := q.parkAll(ctx)
	end()
	fetching.Wait()
	return err
}

// parkAll parks pages as they come.
func (q *queue) parkAll(ctx context.Context) error {
	c := newChunk(q)
	for {
		pages := q.backlog.takeAll(ctx)
		if pages == nil {
			return nil
		}
		for _, p := range pages {
			if err := c.add(ctx, p); err != nil {
				return unlessOver(ctx, err)
			}
		}
		if err := c.flush(ctx); err != nil {
			return unlessOver(ctx, err)
		}
	}
}

// unlessOver: what fails after the end has failed because of it.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

const (
	// suspendFor is how long a broker may wait for messages. It looks every five
	// seconds whether that is over.
	suspendFor  = 15 * time.Second
	suspendMore = 10 * time.Second
	fetchPause  = time.Second // after a failure
	emptyPause  = 100 * time.Millisecond
	pullFlags   = "6" // may wait; comes with the expression
	askMessages = "500"
)

// fetch fetches until ctx ends.
func (q *queue) fetch(ctx context.Context) {
	next, ok := q.begin(ctx)
	for ok && ctx.Err() == nil {
		p, pause, err := q.pull(ctx, next)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			q.troubles.Report("can't read", err)
			pause = fetchPause
		default:
			q.troubles.Over()
			if p.next != next {
				q.backlog.add(ctx, p)
			}
			next = p.next
		}
		if pause > 0 {
			source.Sleep(ctx, pause)
		}
	}
}

// begin finds out where to begin, and commits it: else a source that reads
// nothing before its end would begin elsewhere the next time. False: ctx has
// ended.
func (q *queue) begin(ctx context.Context) (offset int64, ok bool) {
	for ctx.Err() == nil {
		offset, err := q.committed(ctx)
		if rocketmq.HasCode(err, rocketmq.CodeNoOffset) {
			offset, err = q.edge(ctx)
		}
		if err == nil {
			q.troubles.Over()
			q.done(offset)
			q.begun.Store(true)
			return offset, true
		}
		if ctx.Err() == nil {
			q.troubles.Report("can't find the first offset", err)
			source.Sleep(ctx, fetchPause)
		}
	}
	return 0, false
}

func (q *queue) committed(ctx context.Context) (int64, error) {
	fields := q.queueFields(q.place)
	fields["setZeroIfNotFound"] = "false" // as to "latest" 0 is wrong; from 5.0 on
	return q.askOffset(ctx, rocketmq.RequestOffset, fields)
}

func (q *queue) edge(ctx context.Context) (int64, error) {
	code := rocketmq.RequestMinOffset
	if q.settings.latest {
		code = rocketmq.RequestMaxOffset
	}
	return q.askOffset(ctx, code, q.queueFields(q.place))
}

func (q *queue) askOffset(ctx context.Context, code int, fields map[string]string) (int64, error) {
	r, err := q.pool.askBroker(ctx, q.broker, rocketmq.Command{Code: code, Fields: fields})
	if err != nil {
		return 0, err
	}
	return number(r, "offset")
}

func number(r *rocketmq.Command, field string) (int64, error) {
	n, err := strconv.ParseInt(r.Fields[field], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("broker's answer has no number in %s", field)
	}
	return n, nil
}

// pull asks for messages from an offset on. The page has none if there are
// none, or none with a tag that is wanted; pause is then how long to wait.
func (q *queue) pull(ctx context.Context, from int64) (p page, pause time.Duration, err error) {
	address, err := q.pool.addressOf(q.broker)
	if err != nil {
		return p, 0, err
	}
	r, err := q.pool.ask(ctx, address, rocketmq.Command{Code: rocketmq.RequestPull, Fields: q.pullFields(from)}, suspendFor+suspendMore)
	if err != nil {
		return p, 0, err
	}
	switch r.Code {
	case rocketmq.CodeOK, rocketmq.CodeNoMessage, rocketmq.CodePullAgain, rocketmq.CodeOffsetMoved:
	default:
		return p, 0, r.Err()
	}
	if p.next, err = number(r, "nextBeginOffset"); err != nil {
		return p, 0, err
	}
	if end, err := number(r, "maxOffset"); err == nil {
		q.End.Store(end)
	}
	switch r.Code {
	case rocketmq.CodeOK:
		p.messages = r.Body
		if p.next <= from {
			return p, 0, fmt.Errorf("broker returned messages but no offset after %d", from)
		}
	case rocketmq.CodeOffsetMoved:
		q.log.Error("messages at this offset no longer exist, continuing at the broker's offset",
			"source", q.name, "topic", q.topic, "broker", q.broker, "queue", q.number, "offset", from, "next", p.next)
	}
	if p.next == from {
		pause = emptyPause
	}
	return p, pause, nil
}

func (q *queue) pullFields(from int64) map[string]string {
	fields := q.queueFields(q.place)
	fields["queueOffset"] = strconv.FormatInt(from, 10)
	fields["maxMsgNums"] = askMessages
	fields["sysFlag"] = pullFlags
	fields["commitOffset"] = "0"
	fields["suspendTimeoutMillis"] = strconv.FormatInt(suspendFor.Milliseconds(), 10)
	fields["subscription"] = q.settings.expression()
	fields["subVersion"] = strconv.FormatInt(q.version, 10)
	fields["expressionType"] = "TAG"
	return fields
}

// done says that all before offset is parked or rejected.
func (q *queue) done(offset int64) {
	q.Parked.Store(offset)
	q.progress.mark(q.place, offset)
}
