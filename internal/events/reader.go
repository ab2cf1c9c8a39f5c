package events

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Line is one event as a reader gets it.
type Line struct {
	Event string
	ID    string // of the message, if it is about one
	Data  []byte // JSON in one line; others may have the same bytes
}

// ErrSlow is the error of a reader that was cut off; see Reader.Dropped.
var ErrSlow = errors.New("the reader was too slow and was cut off")

// maxWaiting bounds the bytes of events that wait for a reader, but for a single event.
const maxWaiting = 8 << 20

// Reader gets the events that a Filter selects, from Subscribe to Close. Nobody waits for
// it: when what waits for it is too much, it is cut off.
type Reader struct {
	filter Filter
	bodies bool
	// lasting: what does not fit is left out, but the reader is not cut off.
	lasting bool
	stream  *Stream
	woken   chan struct{} // holds one signal
	dropped atomic.Uint64

	mu      sync.Mutex
	lines   []Line
	waiting int // bytes of lines
	cut     bool
}

// Next waits for events and returns them, in order. ErrSlow: there are no more.
func (r *Reader) Next(ctx context.Context) ([]Line, error) {
	for {
		lines, cut := r.take()
		switch {
		case len(lines) > 0:
			return lines, nil
		case cut:
			return nil, ErrSlow
		}
		select {
		case <-r.woken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *Reader) take() (lines []Line, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines, r.lines, r.waiting = r.lines, nil, 0
	return lines, r.cut
}

// Waiting returns how many bytes of events wait.
func (r *Reader) Waiting() int { r.mu.Lock(); defer r.mu.Unlock(); return r.waiting }

// Dropped returns how many events the reader has missed.
func (r *Reader) Dropped() uint64 { return r.dropped.Load() }

// Close ends the subscription. What waits can still be read.
func (r *Reader) Close() { r.stream.remove(r) }

// offer gives the reader an event, or counts it as dropped. It does not wait.
func (r *Reader) offer(line Line) {
	r.mu.Lock()
	full := r.cut || r.waiting > 0 && r.waiting+len(line.Data) > maxWaiting
	switch {
	case full && !r.lasting && !r.cut:
		r.cut = true
		r.stream.cutOff.Add(1)
	case !full:
		r.lines, r.waiting = append(r.lines, line), r.waiting+len(line.Data)
	}
	r.mu.Unlock()
	if full {
		r.dropped.Add(1)
	}
	select {
	case r.woken <- struct{}{}:
	default:
	}
}
