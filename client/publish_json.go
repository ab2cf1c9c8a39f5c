package client

import (
	"bytes"
	"context"
	"encoding/json"
)

// PublishJSON is PublishBatch for messages in the JSON of the HTTP API, which are sent
// byte for byte. Each must have an "id" and no line feed.
func (c *Client) PublishJSON(ctx context.Context, messages []json.RawMessage) ([]Receipt, error) {
	all := make([]*Result, len(messages))
	for n, text := range messages {
		all[n] = resultOfJSON(text)
	}
	return c.publish(ctx, all)
}

func resultOfJSON(text json.RawMessage) *Result {
	r := &Result{line: text}
	var message struct{ ID, Sink string }
	switch {
	case json.Unmarshal(text, &message) != nil:
		r.err = &Error{Code: codeMalformed, Message: "must be a JSON object, with id and sink as text"}
	case message.ID == "":
		r.err = Invalid("id", "is missing")
	case bytes.IndexByte(text, '\n') >= 0:
		r.err = &Error{Code: codeMalformed, Message: "must not have a line feed"}
	}
	r.id, r.receipt = message.ID, Receipt{ID: message.ID, Sink: message.Sink}
	return r
}
