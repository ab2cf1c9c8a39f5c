package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
)

// Publish stores m in the bridge, to be delivered when it is due. Only a nil error
// means that it is stored. The Receipt always has the ID: to publish again after
// ErrUnknown, set Message.ID to it. Publish does not change or keep m.
func (c *Client) Publish(ctx context.Context, m Message) (Receipt, error) {
	r := newResult(&m)
	if r.err == nil {
		c.deliver(ctx, []*Result{r})
	}
	return plain(r.receipt, r.err)
}

// PublishBatch stores messages, each independently, in requests as large as the bridge
// allows. It returns one Receipt per message, in order, with at least the ID. An error
// is a BatchError. Messages that are repeated may be accepted after later ones of the
// same batch. If the bridge can't be reached, the remaining messages fail, too.
func (c *Client) PublishBatch(ctx context.Context, messages []Message) ([]Receipt, error) {
	all := make([]*Result, len(messages))
	for n := range messages {
		all[n] = newResult(&messages[n])
	}
	return c.publish(ctx, all)
}

func (c *Client) publish(ctx context.Context, all []*Result) ([]Receipt, error) {
	good := slices.DeleteFunc(slices.Clone(all), func(r *Result) bool { return r.err != nil })
	for len(good) > 0 {
		n := c.fits(good)
		c.deliver(ctx, good[:n])
		if err := goneWith(good[:n]); err != nil {
			giveUp(good[n:], err)
			break
		}
		good = good[n:]
	}
	return collect(all)
}

func collect(all []*Result) ([]Receipt, error) {
	receipts, errs, failed := make([]Receipt, len(all)), make(BatchError, len(all)), false
	for n, r := range all {
		receipts[n] = r.receipt
		if r.err != nil {
			errs[n], failed = r.err, true
		}
	}
	if failed {
		return receipts, errs
	}
	return receipts, nil
}

// fits reports how many of the first messages make one request.
func (c *Client) fits(waiting []*Result) int {
	size := 0
	for n, result := range waiting {
		if size += len(result.line) + 1; n == c.maxBatch || n > 0 && size > c.maxBatchBytes {
			return n
		}
	}
	return len(waiting)
}

// deliver has the messages of one request stored, with as many tries as there is
// time for.
func (c *Client) deliver(ctx context.Context, batch []*Result) {
	for tries := c.begin(); ; {
		err := c.post(ctx, batch)
		if err != nil && tooMany(err) && len(batch) > 1 {
			half := len(batch) / 2
			c.deliver(ctx, batch[:half])
			if gone := goneWith(batch[:half]); gone != nil {
				giveUp(batch[half:], gone)
				return
			}
			c.deliver(ctx, batch[half:])
			return
		}
		if batch = unsettled(batch); len(batch) == 0 || !tries.pause(ctx, batch[0].err) {
			return
		}
	}
}

// tooMany reports that the bridge allows less in one request.
func tooMany(err *Error) bool {
	return err.Status == http.StatusRequestEntityTooLarge || err.Code == codeInvalid && err.Field == "batch"
}

// unsettled returns what may be tried again; of these errors, the first has the longest
// wait.
func unsettled(batch []*Result) []*Result {
	var left []*Result
	for _, result := range batch {
		if result.err == nil || !result.err.again {
			continue
		}
		if left = append(left, result); result.err.after > left[0].err.after {
			left[0].err.after = result.err.after
		}
	}
	return left
}

// goneWith returns the error of a message that failed not by its own fault.
func goneWith(batch []*Result) *Error {
	for _, result := range batch {
		if result.err != nil && (result.err.again || result.err.whole) {
			return result.err
		}
	}
	return nil
}

// giveUp leaves messages unsent that would fare no better than those before.
func giveUp(batch []*Result, err *Error) {
	for _, result := range batch {
		unsent := *err
		unsent.unavailable = err.unavailable || err.Unknown
		if unsent.Unknown = false; unsent.Code == codeUnknown {
			unsent.Code = codeUnavailable
		}
		result.err = &unsent
	}
}

// post makes one try and notes what became of each message. The error is that of
// the request as a whole.
func (c *Client) post(ctx context.Context, batch []*Result) *Error {
	r := requestOf(batch)
	body, err := c.send(ctx, r)
	if err == nil {
		err = note(batch, r, body)
	}
	if err == nil {
		return nil
	}
	err.whole = len(batch) > 1 || !ownFault(err)
	for _, result := range batch {
		own := *err
		result.fail(&own)
	}
	return err
}

// ownFault reports whether a request of one message failed because of what is in
// the message.
func ownFault(err *Error) bool {
	switch err.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

func requestOf(batch []*Result) request {
	if len(batch) == 1 {
		return request{http.MethodPost, "/v1/messages", formJSON, batch[0].line}
	}
	lines := make([][]byte, len(batch))
	for n, result := range batch {
		lines[n] = result.line
	}
	return request{http.MethodPost, "/v1/messages/batch", formNDJSON, bytes.Join(lines, []byte("\n"))}
}

// note reads the answer to a request that was taken: a receipt, or a line with a
// receipt or a problem for each message. The error is of the answer as a whole.
func note(batch []*Result, r request, body []byte) *Error {
	if r.form == formJSON {
		batch[0].settle(r, body)
		return nil
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(lines) != len(batch) {
		return unreadable(r, errors.New("its number of lines differs from the request's"))
	}
	for n, result := range batch {
		result.settle(r, lines[n])
	}
	return nil
}
