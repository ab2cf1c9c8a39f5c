package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// rerunAfter is how long a work that failed rests.
const rerunAfter = time.Second

// Serve implements core.Store. It owns all buckets of the sink at once; a second
// Serve of the same sink waits until the first has ended. It returns nil.
//
// If work returns with messages in flight, their attempt was cut off. Serve does not
// recover a panic of work.
func (s *Store) Serve(ctx context.Context, sink string, work func(ctx context.Context, b core.Bucket) error) error {
	s.mu.Lock()
	served := s.sink(sink)
	s.mu.Unlock()
	select {
	case served.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	var works sync.WaitGroup
	for _, b := range served.buckets {
		works.Go(func() { s.serve(ctx, b, work) })
	}
	works.Wait()
	<-served.turn
	return nil
}

// serve runs work for one bucket, again whenever it fails.
func (s *Store) serve(ctx context.Context, b *bucket, work func(ctx context.Context, b core.Bucket) error) {
	for ctx.Err() == nil {
		o := s.acquire(b)
		err := work(ctx, o)
		o.release()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			s.log.Warn("work on bucket failed and is restarted", "bucket", o.String(), "err", err)
			select {
			case <-time.After(rerunAfter):
			case <-ctx.Done():
			}
		}
	}
}
