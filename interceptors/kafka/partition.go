package kafkasource

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/interceptors/source"
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

	source.Position
}

// page is what one fetch has brought.
type page struct {
	topicID
	offset int64 // what is before is not wanted
	epoch  int32 // of the record before
	answer
	data  []byte // which answer is part of
	taken int    // of the budget
}

// smallAnswer is what needs no budget: an answer without records, or with few.
const smallAnswer = 4 << 10

// room returns memory for n bytes of an answer when there is some.
func (pg *page) room(ctx context.Context, n int, from *budget) ([]byte, error) {
	if n > smallAnswer {
		taken, err := from.take(ctx, n)
		if err != nil {
			return nil, err
		}
		pg.taken = taken
	}
	pg.data = slices.Grow(pg.data[:0], n)[:n]
	return pg.data, nil
}

// release says that a page is not needed any more.
func (s *session) release(pg *page) {
	s.fetched.give(pg.taken)
	*pg = page{data: kept(pg.data)}
	s.pages.Put(pg)
}

// pagesInFlight is how many pages there are: one is parked, one is fetched.
const pagesInFlight = 2

// run reads and parks until ctx ends; nil then.
func (p *partition) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	pages, turns := make(chan *page), make(chan struct{}, pagesInFlight)
	var fetching sync.WaitGroup
	fetching.Go(func() {
		f := fetcher{partition: p, troubles: source.Troubles{Of: p.parker, Log: p.log}, of: p.start.topicID, epoch: p.start.epoch}
		if err := f.run(ctx, pages, turns); err != nil {
			end(err)
		}
	})
	err := p.parkAll(ctx, pages, turns)
	end(err)
	fetching.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errUnreadable) || errors.Is(cause, errLogLost) {
		return cause
	}
	return err
}

// parkAll parks pages as they come, and gives their memory back.
func (p *partition) parkAll(ctx context.Context, pages <-chan *page, turns <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case pg := <-pages:
			err := p.park(ctx, pg)
			p.release(pg)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			<-turns
		}
	}
}

// park parks a page. Only as long needs a partition what that takes.
func (p *partition) park(ctx context.Context, pg *page) error {
	c, ok := p.chunks.Get().(*chunk)
	if !ok {
		c = newChunk(p.settings.batch, p.parker.In.Limits().MaxHeaders)
	}
	c.partition = p
	err := c.park(ctx, pg)
	c.unpacking.give(c.taken)
	c.taken = 0
	if err == nil { // or else there is something left in it
		c.partition = nil
		p.chunks.Put(c)
	}
	return err
}

// done says that all before at is parked or rejected.
func (p *partition) done(at position) {
	p.Parked.Store(at.offset)
	p.progress.mark(p.topic, p.number, at)
}
