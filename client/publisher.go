package client

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Publisher publishes in the background. One request is on its way at a time, and the
// next one has what was given to the Publisher meanwhile, up to Config.MaxBatch: single
// messages leave at once, many leave together. It is safe for concurrent use, and has a
// goroutine only while it has messages.
//
// Messages are stored in the order of the calls of Publish, except that, as with
// PublishBatch, one that is repeated may be accepted after later ones of its request.
// Repeats have the same ID, so that no message is stored twice. If a request fails by no
// fault of its messages, because the bridge is gone for longer than Config.Patience or
// refuses the token, those that wait fail with it, unsent: published again in order, all
// of them are still in order.
//
// A request that is slow delays those after it. If a sink in trouble must not delay
// messages for others, or one request at a time is too slow, use several Publishers;
// messages whose order matters need the same one.
type Publisher struct {
	client *Client
	ctx    context.Context // of the requests
	cancel context.CancelFunc

	// turn is held by the one caller that may wait for room: small messages don't
	// overtake a large one for ever. changed tells that caller of room, or of Close.
	turn, changed chan struct{}

	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	sending bool
	waiting []*Result // in order, not yet in a request
	last    *Result   // that was taken
	count   int       // of messages without a result; they are waiting or in the request
	bytes   int       // of these
}

// NewPublisher returns a Publisher. It starts no goroutine.
func (c *Client) NewPublisher() *Publisher {
	ctx, cancel := context.WithCancel(context.Background())
	return &Publisher{client: c, ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Publish takes m, to be sent soon. While the Publisher holds as many messages or bytes as
// Config.MaxPending and MaxPendingBytes allow, it waits. If ctx ends before there is
// room, m is invalid or the Publisher is closed, the Result is done at once, and its
// error says that m is not stored. Once m is taken, ctx has no effect. Publish does not
// keep m or what it refers to.
func (p *Publisher) Publish(ctx context.Context, m Message) *Result {
	r := newResult(&m)
	r.done = make(chan struct{})
	err := r.err
	if err == nil {
		err = p.add(ctx, r) // r now belongs to the goroutine that sends, unless this failed
	}
	if err != nil {
		r.err, r.line = err, nil
		close(r.done)
	}
	return r
}

func (p *Publisher) add(ctx context.Context, r *Result) *Error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ended(ctx)
	}
	for {
		full, err := p.take(r)
		if !full {
			return err
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

var errClosed = errors.New("the Publisher is closed")

// take appends r to what waits, unless there is no room.
func (p *Publisher) take(r *Result) (full bool, err *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return false, &Error{Message: "not sent", Err: errClosed}
	case p.count >= p.client.maxPending, p.count > 0 && p.bytes+len(r.line) > p.client.maxPendingBytes:
		return true, nil
	}
	p.waiting, p.last = append(p.waiting, r), r
	p.count++
	p.bytes += len(r.line)
	if !p.sending {
		p.sending = true
		p.running.Go(p.send)
	}
	return false, nil
}

// send sends what waits, until nothing does.
func (p *Publisher) send() {
	for batch := p.next(); len(batch) > 0; batch = p.next() {
		p.client.deliver(p.ctx, batch)
		if err := goneWith(batch); err != nil {
			rest := p.rest()
			giveUp(rest, err)
			batch = slices.Concat(batch, rest)
		}
		p.settle(batch)
	}
}

// next takes what makes one request; if there is nothing, send ends.
func (p *Publisher) next() []*Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.client.fits(p.waiting)
	batch := p.waiting[:n]
	p.waiting, p.sending = p.waiting[n:], n > 0
	return batch
}

// rest takes all that waits.
func (p *Publisher) rest() []*Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.waiting
	p.waiting = nil
	return rest
}

func (p *Publisher) settle(results []*Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range results {
		p.count--
		p.bytes -= len(r.line)
		r.line = nil
		close(r.done)
	}
	p.tell()
}

// tell makes the caller that waits for room look again.
func (p *Publisher) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Flush waits until all messages that Publish took before have their results, which are
// not its error: that is the error of ctx if it ends before. They are then still sent.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.wait(ctx)
}

// Close has Publish refuse messages from now on, calls that wait for room included, and
// flushes. If ctx ends before, it stops the request and returns the error of ctx:
// messages of that request may have been stored (ErrUnknown), those that waited are not.
// When Close returns, every Result is done. It does not close the Client.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.tell()
	p.mu.Unlock()
	err := p.Flush(ctx)
	p.cancel()
	p.running.Wait()
	return err
}
