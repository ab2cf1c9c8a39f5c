package kafkadoor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// partition is one partition that is ours, while the session lasts. One
// goroutine fetches, another parks.
type partition struct {
	*session
	topic  string
	number int
	start  position // as the group has it; kafka.FirstOffset and LastOffset may be the offset
	id     string   // begins the IDs of its messages
	log    *slog.Logger

	end, parked atomic.Int64 // after the last record there is, and after the last that is parked
}

// page is what one fetch has brought.
type page struct {
	topicID
	offset int64 // what is before is not wanted
	answer
	data []byte // which answer is part of
}

// pagesInHand is how many pages there are: one is parked, one is fetched.
const pagesInHand = 2

// run reads and parks until ctx ends; nil then.
func (p *partition) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	pages, free := make(chan page), make(chan []byte, pagesInHand)
	for range pagesInHand {
		free <- nil
	}
	var fetching sync.WaitGroup
	fetching.Go(func() {
		f := fetcher{partition: p, troubles: intake.Troubles{Of: p.parker, Log: p.log}, of: p.start.topicID, epoch: p.start.epoch}
		if err := f.run(ctx, pages, free); err != nil {
			end(err)
		}
	})
	err := p.parkAll(ctx, pages, free)
	end(err)
	fetching.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errUnreadable) || errors.Is(cause, errLogLost) {
		return cause
	}
	return err
}

// parkAll parks pages as they come, and gives their memory back.
func (p *partition) parkAll(ctx context.Context, pages <-chan page, free chan<- []byte) error {
	c := newChunk(p)
	for {
		select {
		case <-ctx.Done():
			return nil
		case pg := <-pages:
			err := c.park(ctx, pg)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			free <- kept(pg.data)
		}
	}
}

// done says that all before at is parked or rejected.
func (p *partition) done(at position) {
	p.parked.Store(at.offset)
	p.progress.mark(p.topic, p.number, at)
}
