package client

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// tries counts those of one call.
type tries struct {
	made int
	end  time.Time // no try begins later
}

func (c *Client) begin() *tries { return &tries{end: time.Now().Add(c.patience)} }

// pause waits before the next try, and reports whether there is to be one. It does
// not wait if the time to come is not enough.
func (t *tries) pause(ctx context.Context, err *Error) bool {
	if !err.again {
		return false
	}
	pause := min(firstPause<<min(t.made, 16), longestPause)
	t.made++
	pause = max(pause/2+rand.N(pause/2), err.after)
	next := time.Now().Add(pause)
	if deadline, ok := ctx.Deadline(); next.After(t.end) || ok && next.After(deadline) {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask sends r until it has an answer that stands, and has read that.
func (c *Client) ask(ctx context.Context, r request, read func(body []byte) error) *Error {
	doubt := false
	for tries := c.begin(); ; {
		body, err := c.send(ctx, r)
		if err == nil {
			err = unreadable(r, read(body))
		}
		if err == nil {
			return nil
		}
		doubt = doubt || err.Unknown
		if !tries.pause(ctx, err) {
			err.Unknown = doubt
			return err
		}
	}
}

// unreadable is for a good answer that makes no sense.
func unreadable(r request, err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{Status: 200, Message: "read the answer", Err: err, Unknown: !r.reads()}
}
