package rocketmqsource

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// progress gathers how far queues are parked, so that one commit serves many.
type progress struct {
	mu   sync.Mutex
	open map[place]int64 // not yet committed
	wake chan struct{}
	turn sync.Mutex // held while marks are taken, committed and put back
}

func newProgress() *progress {
	return &progress{open: make(map[place]int64), wake: make(chan struct{}, 1)}
}

// mark says that all before offset is parked or rejected.
func (p *progress) mark(at place, offset int64) {
	p.mu.Lock()
	p.open[at] = offset
	p.mu.Unlock()
	poke(p.wake)
}

// markAgain marks where a queue is, if it has no newer mark.
func (p *progress) markAgain(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, newer := p.open[q.place]; !newer {
		p.open[q.place] = q.Parked.Load()
		poke(p.wake)
	}
}

// takeOf takes the marks of some queues.
func (p *progress) takeOf(queues []*reading) map[place]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := make(map[place]int64)
	for _, q := range queues {
		if offset, ok := p.open[q.place]; ok {
			taken[q.place] = offset
			delete(p.open, q.place)
		}
	}
	return taken
}

func (p *progress) take() map[place]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.open
	p.open = make(map[place]int64)
	return taken
}

// putBack returns what could not be committed, unless there is newer. open is
// the progress's from now on.
func (p *progress) putBack(open map[place]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(open, p.open)
	p.open = open
	poke(p.wake)
}

// commitPause bounds how many commits there are under load.
const commitPause = 100 * time.Millisecond

// commit commits what is marked until ctx ends.
func (m *member) commit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.progress.wake:
		}
		pause := commitPause
		if !m.commitAll(ctx) {
			pause = time.Second
		}
		if !source.Sleep(ctx, pause) {
			return
		}
	}
}

// commitAll returns whether all that was marked is committed.
func (m *member) commitAll(ctx context.Context) bool {
	m.progress.turn.Lock()
	defer m.progress.turn.Unlock()
	open := m.commitOnce(ctx, m.progress.take())
	if len(open) == 0 {
		return true
	}
	m.progress.putBack(open)
	return false
}

// commitGone commits what queues have reached that are read no more, now or never:
// later it could take back what their next member has committed.
func (m *member) commitGone(ctx context.Context, gone []*reading) {
	m.progress.turn.Lock()
	defer m.progress.turn.Unlock()
	m.commitOnce(ctx, m.progress.takeOf(gone)) // if that fails, the next member knows the messages by their IDs
}

// commitAgain has the places of all queues committed again: another member that
// had a queue before may have committed later than we did.
func (m *member) commitAgain() {
	for _, r := range m.reading {
		if r.begun.Load() {
			m.progress.markAgain(r.queue)
		}
	}
}

// commitOnce returns what could not be committed. Each broker is told of its
// queues, all brokers at once. That a broker can't be reached, its queues tell.
func (m *member) commitOnce(ctx context.Context, taken map[place]int64) map[place]int64 {
	byBroker := make(map[string][]place)
	for p := range taken {
		byBroker[p.broker] = append(byBroker[p.broker], p)
	}
	var mu sync.Mutex
	open := make(map[place]int64)
	var work sync.WaitGroup
	for _, places := range byBroker {
		work.Go(func() {
			for n, p := range places {
				if err := m.commitOffset(ctx, p, taken[p]); err != nil {
					mu.Lock()
					defer mu.Unlock()
					for _, p := range places[n:] {
						open[p] = taken[p]
					}
					m.log.Debug("commit failed", "source", m.name, "err", err)
					return
				}
			}
		})
	}
	work.Wait()
	return open
}

func (m *member) commitOffset(ctx context.Context, p place, offset int64) error {
	fields := m.queueFields(p)
	fields["commitOffset"] = strconv.FormatInt(offset, 10)
	if _, err := m.pool.askBroker(ctx, p.broker, rocketmq.Command{Code: rocketmq.RequestCommit, Fields: fields}); err != nil {
		return fmt.Errorf("commit for queue %d of %s on %s: %w", p.number, p.topic, p.broker, err)
	}
	return nil
}

func (m *member) queueFields(p place) map[string]string {
	return map[string]string{"consumerGroup": m.settings.group, "topic": m.settings.cluster.OnWire(p.topic), "queueId": strconv.Itoa(p.number)}
}
