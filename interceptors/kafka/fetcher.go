package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// fetcher fetches the records of one partition. It is for one goroutine.
type fetcher struct {
	*partition
	troubles source.Troubles
	conn     *conn // nil: none
	of       topicID
	epoch    int32 // of the last record that was fetched, -1 if not known
}

// errUnreadable: there are records that can't be read, and can't be left out.
var errUnreadable = errors.New("records can't be read")

// errLogLost: the partition's log no longer exists. Where to begin in the one that has
// taken its place, the group must say.
var errLogLost = errors.New("the partition's log no longer exists")

// errEndsBefore is why, if the topic itself may be the same.
var errEndsBefore = errors.New("it ends at")

var errNoLeader = errors.New("partition has no leader")

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// answerHead is room for all of an answer but its records.
	answerHead = 64 << 10
)

// run fetches pages until ctx ends; nil then. After errLogLost nothing more of the
// topic is committed. For each page there is a turn, which who has parked it takes
// back.
func (f *fetcher) run(ctx context.Context, pages chan<- *page, turns chan struct{}) error {
	defer f.hangUp()
	offset := f.start.offset
	for pause := firstPause; ctx.Err() == nil; {
		next, err := f.step(ctx, offset, pages, turns)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errOldFormat):
			return fmt.Errorf("topic %s, partition %d: %w: %w", f.topic, f.number, errUnreadable, err)
		case errors.Is(err, errLogLost):
			if f.progress.forget(f.topic, !errors.Is(err, errEndsBefore)) {
				f.log.Error("the partition was recreated, rejoining the group", "offset", offset, "err", err)
			}
			return err
		case err == nil:
			f.troubles.Over()
			offset, pause = next, firstPause
			continue
		}
		f.troubles.Report("can't fetch", err)
		f.hangUp()
		source.Sleep(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, longestPause)
	}
	return nil
}

// step does what is next at offset and returns the offset after it.
func (f *fetcher) step(ctx context.Context, offset int64, pages chan<- *page, turns chan struct{}) (int64, error) {
	if f.conn != nil && f.conn.Expired() {
		f.hangUp()
	}
	if f.conn == nil {
		next, err := f.connect(ctx, offset)
		if err != nil {
			return offset, err
		}
		offset = next
	}
	if offset < 0 {
		return f.locate(ctx, offset)
	}
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return offset, nil
	}
	pg, ok := f.pages.Get().(*page)
	if !ok {
		pg = new(page)
	}
	next, err := f.fetch(ctx, offset, pg)
	switch {
	case errors.Is(err, kafka.OffsetOutOfRange):
		next, err = f.relocate(ctx, offset)
	case isGone(err):
		err = fmt.Errorf("%w: %w", errLogLost, err)
	}
	if err != nil || len(pg.records) == 0 || next == offset {
		f.release(pg)
		<-turns
		return next, err
	}
	select {
	case pages <- pg:
	case <-ctx.Done():
		f.release(pg)
	}
	return next, nil
}

// isGone reports whether a topic was deleted, and maybe recreated.
func isGone(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.UnknownTopicID) || errors.Is(err, kafka.InconsistentTopicID)
}

// fetch reads what there is from offset on, which may be nothing, into pg, and
// returns the offset after that.
func (f *fetcher) fetch(ctx context.Context, offset int64, pg *page) (next int64, err error) {
	ask := &request{topic: f.topic, id: f.of, partition: f.number, offset: offset, epoch: f.epoch, most: f.settings.fetchBytes}
	most := f.settings.maxBatchBytes + answerHead
	pg.topicID, pg.offset, pg.epoch = f.of, offset, f.epoch
	err = f.conn.within(ctx, maxWait+f.settings.RequestTimeout, func() error {
		data, version, err := f.conn.fetch(ask, most, func(n int) ([]byte, error) { return pg.room(ctx, n, f.fetched) })
		if err == nil {
			pg.answer, err = decodeAnswer(data, version)
		}
		return err
	})
	if err != nil {
		return offset, fmt.Errorf("fetch: %w", err)
	}
	f.End.Store(pg.end)
	if pg.cut {
		return f.goBack(offset, pg.common), nil
	}
	return f.measure(pg, len(pg.data) == most)
}

// measure cuts what is not whole off a page and returns the offset after it. A
// batch that is too large is left in although it was cut.
func (f *fetcher) measure(pg *page, cut bool) (next int64, err error) {
	next = pg.offset
	for rest := pg.records; len(rest) > 0; {
		b, after, err := nextBatch(rest)
		if err == nil && b.whole && b.last >= pg.offset {
			err = b.check()
		}
		if err != nil && !errors.Is(err, errPart) {
			return next, err
		}
		if err == nil && (b.whole || cut && b.size > f.settings.maxBatchBytes && next == pg.offset) {
			next, f.epoch = max(next, b.last+1), b.epoch
			rest = after
			continue
		}
		if next == pg.offset {
			return next, errPart
		}
		pg.records = pg.records[:len(pg.records)-len(rest)]
		break
	}
	return next, nil
}

// goBack returns where to continue in a log that has lost its last records, of which
// some were read: a replica that lacked them leads it now, and has given their
// offsets to others.
func (f *fetcher) goBack(offset int64, common point) int64 {
	next := common.offset
	if next >= offset { // it was cut more than once, and where can't be told
		next, common.epoch = kafka.FirstOffset, -1
	}
	f.epoch = common.epoch
	f.log.Error("the partition lost records that had been read, continuing with those that replaced them", "offset", offset, "going_on_at", next)
	return next
}

// locate finds the offset that a place stands for and commits it at once: at
// "latest" it must not mean a later record the next time.
func (f *fetcher) locate(ctx context.Context, place int64) (int64, error) {
	first, end, err := f.bounds(ctx)
	if err != nil {
		return place, err
	}
	offset := first
	if place == kafka.LastOffset {
		offset = end
	}
	f.epoch = -1
	f.done(position{topicID: f.of, point: point{offset, -1}})
	return offset, nil
}

// relocate finds where to continue when the log does not have offset. What was
// before its start has been removed. Beyond its end this is another log, or it was
// cut: errLogLost, or, if the group itself has that offset, what the settings say
// of partitions of which it has none, as other clients of Kafka do.
func (f *fetcher) relocate(ctx context.Context, offset int64) (int64, error) {
	first, end, err := f.bounds(ctx)
	if err != nil {
		return offset, err
	}
	next := first
	f.epoch = -1
	switch {
	case offset < first:
	case offset != f.start.offset: // even if the end has come up to it meanwhile
		return offset, fmt.Errorf("%w: %w %d", errLogLost, errEndsBefore, end)
	case offset <= end:
		return offset, kafka.OffsetOutOfRange
	default:
		if next, err = f.locate(ctx, f.place(f.topic, f.number)); err != nil {
			return offset, err
		}
	}
	f.log.Error("the next record is no longer in the partition, continuing with another", "offset", offset, "going_on_at", next)
	return next, nil
}

func (f *fetcher) bounds(ctx context.Context) (first, end int64, err error) {
	answer, err := f.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		f.topic: {kafka.FirstOffsetOf(f.number), kafka.LastOffsetOf(f.number)}}})
	if err != nil {
		return 0, 0, fmt.Errorf("get offsets: %w", err)
	}
	for _, p := range answer.Topics[f.topic] {
		if p.Partition == f.number {
			return p.FirstOffset, p.LastOffset, p.Error
		}
	}
	return 0, 0, errNoLeader
}

// connect connects to the leader, and returns the offset to continue at: another one
// if the topic is not the one that offset is of.
func (f *fetcher) connect(ctx context.Context, offset int64) (int64, error) {
	address, err := f.leader(ctx)
	if err != nil {
		return offset, err
	}
	if f.conn, err = f.settings.open(ctx, address); err != nil || !f.conn.byID {
		return offset, err
	}
	var id topicID
	err = f.conn.within(ctx, f.settings.RequestTimeout, func() (err error) {
		id, err = f.conn.askForID(f.topic)
		return err
	})
	switch {
	case isGone(err):
		return offset, fmt.Errorf("%w: %w", errLogLost, err)
	case err != nil:
		return offset, fmt.Errorf("get the topic's ID: %w", err)
	}
	before := f.of
	f.of = id
	switch {
	case before.none() || id == before:
		return offset, nil
	case offset != f.start.offset:
		return offset, fmt.Errorf("%w: another topic has its name", errLogLost)
	}
	f.epoch = -1
	f.log.Error("the topic was recreated, reading it from its beginning", "offset", offset)
	return kafka.FirstOffset, nil
}

func (f *fetcher) leader(ctx context.Context) (address string, err error) {
	answer, err := f.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{f.topic}})
	if err != nil {
		return "", fmt.Errorf("get the leader: %w", err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if t.Name == f.topic && p.ID == f.number && p.Leader.Host != "" {
				return net.JoinHostPort(p.Leader.Host, strconv.Itoa(p.Leader.Port)), nil
			}
		}
	}
	return "", errNoLeader
}

func (f *fetcher) hangUp() {
	if f.conn != nil {
		f.conn.Raw.Close()
		f.conn = nil
	}
}
