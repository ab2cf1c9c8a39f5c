package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
)

// Publish stores m in the bridge, to be delivered when it is due. Only a nil error
// means that it is stored. The Receipt always has the ID: to publish again after
// ErrUnknown, set Message.ID to it. Publish does not change or keep m.
func (c *Client) Publish(ctx context.Context, m Message) (Receipt, error) {
	p := newBatch(&m)
	if p.err == nil {
		c.deliver(ctx, []*batch{p})
	}
	if p.err != nil {
		return p.receipt, p.err
	}
	return p.receipt, nil
}

// PublishBatch stores messages, each independently, in requests as large as the bridge
// allows. It returns one Receipt per message, in order, with at least the ID. An error
// is a BatchError. Messages that are repeated may be accepted after later ones of the
// same batch. If the bridge can't be reached, the remaining messages fail, too.
func (c *Client) PublishBatch(ctx context.Context, messages []Message) ([]Receipt, error) {
	batches := make([]*batch, len(messages))
	good := make([]*batch, 0, len(messages))
	for n := range messages {
		batches[n] = newBatch(&messages[n])
		if batches[n].err == nil {
			good = append(good, batches[n])
		}
	}
	for len(good) > 0 {
		n := c.fits(good)
		c.deliver(ctx, good[:n])
		if err := goneWith(good[:n]); err != nil {
			giveUp(good[n:], err)
			break
		}
		good = good[n:]
	}
	return results(batches)
}

func results(batches []*batch) ([]Receipt, error) {
	receipts, errs, failed := make([]Receipt, len(batches)), make(BatchError, len(batches)), false
	for n, p := range batches {
		receipts[n] = p.receipt
		if p.err != nil {
			errs[n], failed = p.err, true
		}
	}
	if failed {
		return receipts, errs
	}
	return receipts, nil
}

// batch is one message on its way.
type batch struct {
	line    []byte // its JSON
	receipt Receipt
	err     *Error
	doubt   bool // it may have been stored by a try before
}

func newBatch(m *Message) *batch {
	p := &batch{receipt: Receipt{ID: m.ID, Sink: m.Sink}}
	if p.receipt.ID == "" {
		// 26 characters, of which a store keeps as many as 28 at no extra cost.
		p.receipt.ID = rand.Text()
	}
	p.line, p.err = appendMessage(nil, m, p.receipt.ID)
	return p
}

// fits reports how many of the first batches make one request.
func (c *Client) fits(batches []*batch) int {
	size := 0
	for n, p := range batches {
		if size += len(p.line) + 1; n == c.maxBatch || n > 0 && size > c.maxBatchBytes {
			return n
		}
	}
	return len(batches)
}

// deliver has batches of one request stored, with as many tries as there is
// time for.
func (c *Client) deliver(ctx context.Context, batches []*batch) {
	for tries := c.begin(); ; {
		err := c.post(ctx, batches)
		if err != nil && tooMany(err) && len(batches) > 1 {
			half := len(batches) / 2
			c.deliver(ctx, batches[:half])
			if gone := goneWith(batches[:half]); gone != nil {
				giveUp(batches[half:], gone)
				return
			}
			c.deliver(ctx, batches[half:])
			return
		}
		if batches = unsettled(batches); len(batches) == 0 || !tries.pause(ctx, batches[0].err) {
			return
		}
	}
}

// tooMany reports that the bridge allows less in one request.
func tooMany(err *Error) bool {
	return err.Status == http.StatusRequestEntityTooLarge || err.Code == codeInvalid && err.Field == "batch"
}

// unsettled returns the batches that may be tried again; of these, the one that
// is to wait longest comes first.
func unsettled(batches []*batch) []*batch {
	var left []*batch
	for _, p := range batches {
		if p.err == nil || !p.err.again {
			continue
		}
		if left = append(left, p); p.err.after > left[0].err.after {
			left[0].err.after = p.err.after
		}
	}
	return left
}

// goneWith returns the error of a batch that failed not by its own fault.
func goneWith(batches []*batch) *Error {
	for _, p := range batches {
		if p.err != nil && (p.err.again || p.err.whole) {
			return p.err
		}
	}
	return nil
}

// giveUp leaves batches unsent that would fare no better than the one before.
func giveUp(batches []*batch, err *Error) {
	for _, p := range batches {
		unsent := *err
		unsent.unavailable = err.unavailable || err.Unknown
		if unsent.Unknown = false; unsent.Code == codeUnknown {
			unsent.Code = codeUnavailable
		}
		p.err = &unsent
	}
}

// post makes one try and notes what became of each batch. The error is that of
// the request as a whole.
func (c *Client) post(ctx context.Context, batches []*batch) *Error {
	r := requestOf(batches)
	body, err := c.send(ctx, r)
	if err == nil {
		err = note(batches, r, body)
	}
	if err == nil {
		return nil
	}
	err.whole = len(batches) > 1 || !ownFault(err)
	for _, p := range batches {
		own := *err
		p.fail(&own)
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

func requestOf(batches []*batch) request {
	if len(batches) == 1 {
		return request{http.MethodPost, "/v1/messages", formJSON, batches[0].line}
	}
	lines := make([][]byte, len(batches))
	for n, p := range batches {
		lines[n] = p.line
	}
	return request{http.MethodPost, "/v1/messages/batch", formNDJSON, bytes.Join(lines, []byte("\n"))}
}

// note reads the answer to a request that was taken: a receipt, or a line with a
// receipt or a problem for each batch. The error is of the answer as a whole.
func note(batches []*batch, r request, body []byte) *Error {
	if r.form == formJSON {
		batches[0].settle(r, body)
		return nil
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(lines) != len(batches) {
		return unreadable(r, errors.New("its number of lines differs from the request's"))
	}
	for n, p := range batches {
		p.settle(r, lines[n])
	}
	return nil
}

// settle notes the receipt or problem that text is.
func (p *batch) settle(r request, text []byte) {
	receipt, err := readReceipt(text, p.receipt.ID)
	if err == nil {
		p.receipt, p.err = receipt, nil
		return
	}
	e := problem(text, r.reads())
	if e == nil {
		e = unreadable(r, err)
		e.whole = true
	}
	p.fail(e)
}

// fail notes why a try failed. A conflict is with the content of another, so no
// try before can have stored this one.
func (p *batch) fail(err *Error) {
	p.doubt = p.doubt || err.Unknown
	err.Unknown = p.doubt && err.Code != codeConflict
	p.err = err
}
