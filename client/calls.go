package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// Get returns a stored message and its state; ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, ref Ref) (Entry, error) {
	path, refused := pathOf("/v1/messages/", ref, "")
	if refused != nil {
		return Entry{}, refused
	}
	var e entryJSON
	if err := c.read(ctx, path, &e); err != nil {
		return Entry{}, err
	}
	return e.entry(), nil
}

// read has the JSON at path decoded.
func (c *Client) read(ctx context.Context, path string, into any) error {
	err := c.ask(ctx, request{method: http.MethodGet, path: path}, func(body []byte) error { return json.Unmarshal(body, into) })
	if err != nil {
		return err
	}
	return nil // not a nil *Error
}

// Cancel withdraws a message. If the Receipt reports no attempt, the message is never
// sent. ErrTooLate: it is being delivered or is settled, see Error.State.
func (c *Client) Cancel(ctx context.Context, ref Ref) (Receipt, error) {
	receipt, err := c.change(ctx, http.MethodDelete, "/v1/messages/", ref, "", nil)
	if err == nil {
		return receipt, nil
	}
	if err.Code != codeTooLate || !err.Unknown {
		return receipt, err
	}
	// A try before had no answer. It did it, or it did not and will not.
	if err.State == Cancelled {
		return Receipt{ID: ref.ID, Sink: ref.Sink, State: Cancelled, MayHaveBeenSent: true}, nil
	}
	err.Unknown = false
	return receipt, err
}

// Reschedule changes when a waiting message is due. ErrTooLate as with Cancel.
func (c *Client) Reschedule(ctx context.Context, ref Ref, when When) (Receipt, error) {
	body, err := appendWhen([]byte{'{'}, when.At, when.After)
	if err != nil {
		return Receipt{ID: ref.ID, Sink: ref.Sink}, err
	}
	return plain(c.change(ctx, http.MethodPatch, "/v1/messages/", ref, "", append(body, '}')))
}

// DeliverNow makes a waiting message due at once. ErrTooLate as with Cancel.
func (c *Client) DeliverNow(ctx context.Context, ref Ref) (Receipt, error) {
	return plain(c.change(ctx, http.MethodPost, "/v1/messages/", ref, "/deliver-now", nil))
}

// Redrive makes a dead letter due at once, with no attempts spent and no expiry.
// ErrTooLate if the message is not dead.
func (c *Client) Redrive(ctx context.Context, ref Ref) (Receipt, error) {
	return plain(c.change(ctx, http.MethodPost, "/v1/dead/", ref, "/redrive", nil))
}

// Discard removes a dead letter. ErrTooLate if the message is not dead.
func (c *Client) Discard(ctx context.Context, ref Ref) (Receipt, error) {
	return plain(c.change(ctx, http.MethodDelete, "/v1/dead/", ref, "", nil))
}

// plain keeps a nil *Error from being an error.
func plain(receipt Receipt, err *Error) (Receipt, error) {
	if err != nil {
		return receipt, err
	}
	return receipt, nil
}

func (c *Client) change(ctx context.Context, method, above string, ref Ref, below string, body []byte) (Receipt, *Error) {
	receipt := Receipt{ID: ref.ID, Sink: ref.Sink}
	path, refused := pathOf(above, ref, below)
	if refused != nil {
		return receipt, refused
	}
	err := c.ask(ctx, request{method, path, formJSON, body}, func(body []byte) (err error) {
		receipt, err = readReceipt(body, ref.ID)
		return err
	})
	return receipt, err
}

// pathOf is the path of a call by ID, with its query.
func pathOf(above string, ref Ref, below string) (string, *Error) {
	// A path with such a segment would be another one.
	if ref.ID == "" || ref.ID == "." || ref.ID == ".." {
		return "", Invalid("id", "%q can't name a message", ref.ID)
	}
	query := make(url.Values)
	if ref.Sink != "" {
		query.Set("sink", ref.Sink)
	}
	setKey(query, ref.Key)
	return withQuery(above+url.PathEscape(ref.ID)+below, query), nil
}

func setKey(query url.Values, key []byte) {
	switch {
	case key == nil:
	case utf8.Valid(key):
		query.Set("key", string(key))
	default:
		query.Set("key_base64", base64.StdEncoding.EncodeToString(key))
	}
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return fmt.Sprintf("%s?%s", path, query.Encode())
}

// setTime sets a parameter that is a time, unless it is zero.
func setTime(query url.Values, name string, t time.Time) {
	if !t.IsZero() {
		query.Set(name, timeText(t))
	}
}
