package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// newerRecords is what the last take met of formats that this instance can't read.
// Such records are never settled: they stay until a newer version takes them.
type newerRecords struct {
	count  int
	format int // the newest of them
	id     string
	logged time.Time
}

const newerLogEvery = time.Minute

func (n *newerRecords) met(record, id string) {
	n.format = max(int(record[0]), n.format)
	n.count, n.id = n.count+1, id
}

// leaveNewer deals with a batch of which some can't be read here. If an instance that
// serves the sink reads them it gives up the bucket, by errNewer. Else it goes on with
// up to limit of the others, and what can't be read waits.
func (b *bucket) leaveNewer(ctx context.Context, batch core.Batch, limit int) (core.Batch, error) {
	b.store.formats.met.Store(int64(b.newer.format))
	b.store.refreshFormats(ctx, b.store.serving)
	members, err := b.store.serving.ZRange(ctx, b.store.keys.live(b.sink), 0, -1).Result()
	seen := b.store.formats.seen.Load()
	if err == nil && slices.ContainsFunc(members, func(name string) bool {
		newest, _ := seen.reads(name)
		return newest >= b.newer.format
	}) {
		err = fmt.Errorf("take from %s: %d records such as %q: %w (%d)", b, b.newer.count, b.newer.id, errNewer, b.newer.format)
		return core.Batch{}, b.putBack(ctx, err)
	}
	if time.Since(b.newer.logged) >= newerLogEvery {
		b.newer.logged = time.Now()
		b.store.config.Log.Warn("records of a newer format are due and no instance reads them: they wait; run an instance of the newer version",
			"bucket", b.String(), "format", b.newer.format, "reads", b.store.config.newest, "records", b.newer.count, "id", b.newer.id)
	}
	if !batch.Next.After(batch.Now) {
		batch.Next = time.Time{} // there is more due behind them, but no sooner
	}
	if len(batch.Messages) == 0 {
		return batch, b.putBack(ctx, nil)
	}
	batch.Messages = batch.Messages[:min(limit, len(batch.Messages))]
	return batch, nil
}

// putBack puts back what is in flight, and returns err unless that fails.
func (b *bucket) putBack(ctx context.Context, err error) error {
	if failed := b.settle(ctx, nil); failed != nil {
		return failed
	}
	return err
}
