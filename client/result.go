package client

import (
	"context"
	"crypto/rand"
)

// Result is what becomes of one message that was given to a Publisher.
type Result struct {
	id      string
	line    []byte // the message in JSON
	receipt Receipt
	err     *Error
	doubt   bool          // it may have been stored by a try before
	done    chan struct{} // nil without a Publisher; once closed, nothing changes
}

func newResult(m *Message) *Result {
	r := &Result{id: m.ID}
	if r.id == "" {
		// 26 characters, of which a store keeps as many as 28 at no extra cost.
		r.id = rand.Text()
	}
	r.receipt = Receipt{ID: r.id, Sink: m.Sink}
	r.line, r.err = appendMessage(nil, m, r.id)
	return r
}

// Done returns a channel that is closed when Get does not wait.
func (r *Result) Done() <-chan struct{} { return r.done }

// Get waits until it is known what became of the message, and returns what
// Client.Publish would. If ctx ends before, the error is ErrUnknown and the message
// is still on its way: Get can be called again. The Receipt always has the ID.
func (r *Result) Get(ctx context.Context) (Receipt, error) {
	if err := r.wait(ctx); err != nil {
		return Receipt{ID: r.id}, &Error{Message: "no result yet", Err: err, Unknown: true}
	}
	return plain(r.receipt, r.err)
}

// wait waits until r is done; it does not look at ctx if that is so.
func (r *Result) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle notes the receipt or problem that text, of the answer to a request, is.
func (r *Result) settle(asked request, text []byte) {
	receipt, err := readReceipt(text, r.id)
	if err == nil {
		r.receipt, r.err = receipt, nil
		return
	}
	e := problem(text, asked.reads())
	if e == nil {
		e = unreadable(asked, err)
		e.whole = true
	}
	r.fail(e)
}

// fail notes why a try failed. A conflict is with the content of another, so no
// try before can have stored this one.
func (r *Result) fail(err *Error) {
	r.doubt = r.doubt || err.Unknown
	err.Unknown = r.doubt && err.Code != codeConflict
	r.err = err
}
