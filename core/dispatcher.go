package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Dispatcher delivers the messages of one sink: Run is its loop over one owned bucket,
// and Store.Serve runs one such loop for each bucket. Set the exported fields before
// the first use and do not change them afterwards; a zero field means its default.
type Dispatcher struct {
	Name  string // of the sink, as in Message.Sink
	Sink  Sink
	Retry RetryPolicy
	// Timeout bounds one call of Deliver; default 10 s. A call that takes longer counts
	// as Unknown, and the sink is not called again for that bucket until it has
	// returned.
	Timeout time.Duration
	// MaxBatch bounds the messages of one Deliver; MaxTake is the default and the
	// maximum.
	MaxBatch int
	Log      *slog.Logger // nil discards

	breaker  breaker
	evidence evidence
	totals   atomic.Pointer[totals] // see counts
	summary  LogSummary

	// Set when a Bridge has it, else nil.
	observer *Observer
	until    context.Context // ends when another has taken its place
	retire   context.CancelFunc
	loops    calls // of buckets
}

// join makes d a Bridge's. It continues the counts of the Dispatcher whose place it takes.
func (d *Dispatcher) join(observer *Observer, former *Dispatcher) {
	d.observer = observer
	d.until, d.retire = context.WithCancel(context.Background())
	if former != nil {
		d.totals.Store(former.counts())
	}
}

func (d *Dispatcher) counts() *totals {
	if t := d.totals.Load(); t != nil {
		return t
	}
	d.totals.CompareAndSwap(nil, new(totals))
	return d.totals.Load()
}

const defaultTimeout = 10 * time.Second

func (d *Dispatcher) timeout() time.Duration {
	if d.Timeout > 0 {
		return d.Timeout
	}
	return defaultTimeout
}

func (d *Dispatcher) maxBatch() int {
	if d.MaxBatch > 0 {
		return min(d.MaxBatch, MaxTake)
	}
	return MaxTake
}

func (d *Dispatcher) log() *slog.Logger {
	if d.Log != nil {
		return d.Log
	}
	return slog.New(slog.DiscardHandler)
}

// Totals returns the counts of this instance since it started.
func (d *Dispatcher) Totals() Counts { return d.counts().counts() }

// Paused reports why the sink is paused, and since when; an empty reason means that it
// is not.
func (d *Dispatcher) Paused() (reason string, since time.Time) {
	reason, _, since = d.breaker.paused()
	return reason, since
}

// Run takes due messages from bucket, delivers and settles them, and waits for more,
// until ctx ends; then it settles what is in flight and returns nil. It returns an
// error if the store fails or the lease is lost; Run may then be called again.
func (d *Dispatcher) Run(ctx context.Context, bucket Bucket) error {
	return d.run(ctx, ctx, bucket)
}

// runUntilReplaced is Run until another Dispatcher has taken the place of d, too.
func (d *Dispatcher) runUntilReplaced(ctx context.Context, bucket Bucket) error {
	taking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.until, cancel)()
	return d.run(ctx, taking, bucket)
}

// run takes until taking ends, which is no later than ctx, that of the lease.
func (d *Dispatcher) run(ctx, taking context.Context, bucket Bucket) error {
	d.counts().owned.Add(1)
	defer d.counts().owned.Add(-1)
	loop := bucketLoop{Dispatcher: d, bucket: bucket}
	var err error
	for err == nil && taking.Err() == nil {
		err = loop.step(ctx, taking)
	}
	loop.awaitStuck(ctx) // as the next Run knows nothing of it
	return err
}

// bucketLoop is the state of one Run.
type bucketLoop struct {
	*Dispatcher
	bucket Bucket
	// careful counts the takes that are to be of one message, since a batch was
	// cut off by a crash and one of its messages may be the cause.
	careful int
	probes  int // so far
	// stuck is closed when a Deliver that outlived its deadline has returned.
	stuck <-chan struct{}
	// called and returned are when the sink was first called for this batch, and last
	// returned.
	called, returned time.Time
}

// step is one turn: take, deliver, settle, or wait if nothing is due.
func (l *bucketLoop) step(ctx, taking context.Context) error {
	if !l.awaitStuck(taking) {
		return nil
	}
	permit, ok := l.breaker.acquire(taking, l)
	if !ok {
		return nil
	}
	asked := time.Now()
	batch, err := l.bucket.Take(ctx, l.limit(permit))
	if err != nil {
		permit.release()
		return unlessEnded(ctx, "take from", l.bucket, err)
	}
	if len(batch.Messages) == 0 {
		permit.release()
		l.careful = 0
		return unlessEnded(taking, "wait on", l.bucket, l.bucket.Wait(taking, batch.Next))
	}
	if l.careful == 0 && anyCutOff(batch.Messages) {
		permit.release()
		l.careful = len(batch.Messages)
		return l.settle(ctx, nil)
	}
	l.careful = max(0, l.careful-1)
	if batch.Local.IsZero() {
		batch.Local = asked
	}
	return l.handle(ctx, Delivery{Sink: l.Name, Bucket: l.bucket.String(), Batch: batch, Asked: asked, Taken: time.Now()}, permit)
}

// handle delivers and settles a batch.
func (l *bucketLoop) handle(ctx context.Context, d Delivery, p permit) error {
	l.counts().inFlight.Add(int64(len(d.Messages)))
	defer l.counts().inFlight.Add(-int64(len(d.Messages)))
	l.called, l.returned = time.Time{}, time.Time{}
	storeNow := func() time.Time { return d.Now.Add(time.Since(d.Local)) }
	d.Outcomes = l.work(ctx, d.Batch, storeNow, p)
	d.Err = l.settle(ctx, d.Outcomes)
	if l.observer != nil && l.observer.Delivered != nil {
		d.Called, d.Returned, d.Settled = l.called, l.returned, time.Now()
		l.observer.Delivered(d)
	}
	if d.Err != nil {
		return d.Err
	}
	l.logFailures(d.Messages, d.Outcomes)
	l.evidence.settled(d.Outcomes)
	return nil
}

// probeTake is how many messages a probe chooses from.
const probeTake = 100

func (l *bucketLoop) limit(p permit) int {
	switch {
	case l.careful > 0:
		return 1
	case p.probe:
		return min(probeTake, l.maxBatch())
	}
	return l.maxBatch()
}

func anyCutOff(messages []*Message) bool {
	for _, m := range messages {
		if m.CutOff {
			return true
		}
	}
	return false
}

// awaitStuck waits for a Deliver that outlived its deadline, so that a sink
// that never returns holds one goroutine a bucket and not ever more of them.
func (l *bucketLoop) awaitStuck(ctx context.Context) bool {
	if l.stuck == nil {
		return true
	}
	select {
	case <-l.stuck:
		l.stuck = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// work turns a batch into outcomes: first what is not to be delivered any more,
// then what the sink says of the rest. Messages without an outcome stay as they
// are.
func (l *bucketLoop) work(ctx context.Context, batch Batch, storeNow func() time.Time, p permit) []Outcome {
	outcomes := make([]Outcome, 0, len(batch.Messages))
	live := batch.Messages[:0:0]
	for _, m := range batch.Messages {
		if o, over := l.over(m, batch.Now); over {
			outcomes = append(outcomes, o)
			continue
		}
		live = append(live, m)
	}
	if len(live) == 0 {
		p.release()
		return outcomes
	}
	err := l.deliver(ctx, live, p.probe)
	l.counts().begin(time.Now())
	p.cut = context.Cause(ctx) == ErrLeaseLost
	return append(outcomes, l.classify(live, err, storeNow(), p)...)
}

const (
	settleTimeout  = 5 * time.Second
	settleRetries  = 12
	settleMaxPause = time.Second
)

// settle tells the store the outcomes, and again if the store is unreachable: what is
// not settled will be sent twice. It continues when ctx has ended, within bounds,
// but not when the lease is lost.
func (l *bucketLoop) settle(ctx context.Context, outcomes []Outcome) error {
	pause := 10 * time.Millisecond
	for try := 1; ; try++ {
		err := l.settleOnce(ctx, outcomes)
		if err == nil {
			l.counts().settled(outcomes)
			return nil
		}
		lost := errors.Is(err, ErrLeaseLost) || context.Cause(ctx) == ErrLeaseLost
		if lost || try == settleRetries {
			return fmt.Errorf("settle %d of %s: %w", len(outcomes), l.bucket, err)
		}
		time.Sleep(pause)
		pause = min(2*pause, settleMaxPause)
	}
}

func (l *bucketLoop) settleOnce(ctx context.Context, outcomes []Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return l.bucket.Settle(ctx, outcomes...)
}

// unlessEnded wraps err with what failed, or drops it if ctx has ended, as then
// the error is only the echo.
func unlessEnded(ctx context.Context, verb string, bucket Bucket, err error) error {
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, bucket, err)
}
