package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Event is what happened to one message, or a reload of the configuration. A field that
// is not known is zero. docs/events.md lists the events.
type Event struct {
	Event     string // such as delivered
	Time      time.Time
	Instance  string // that did it
	Sink      string
	Topic     string
	ID        string
	Key       []byte
	DeliverAt time.Time
	Due       time.Time // of the next attempt
	Attempt   int
	Reason    string // why an attempt failed
	Error     string
	Input     string // the listener or source that was called
	TraceID   string
	Changes   []string // keys of the configuration
	Body      []byte   // only with EventQuery.Bodies
}

// EventQuery selects events: those that have what each field asks for that is not zero.
type EventQuery struct {
	Sinks  []string
	Events []string // such as dead
	Topic  string   // or the beginning of one, before a * at the end
	ID     string
	Key    []byte
	Bodies bool // of messages, too
}

// silence is how long a stream may be without a line: the bridge sends one every 15 s.
const silence = 45 * time.Second

// Events iterates over what happens in one instance of the bridge from now on. It is not
// tried again: the iteration ends with an error when the instance stops, the connection is
// lost, ctx ends, or the caller is too slow and has missed events.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		heard, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		r := request{method: http.MethodGet, path: withQuery("/v1/events", q.values())}
		patience := time.AfterFunc(c.timeout, func() { cancel(errSilent) })
		defer patience.Stop()
		body, err := c.open(heard, r)
		if err == nil {
			defer body.Close()
			lines := bufio.NewScanner(body)
			lines.Buffer(nil, maxReply)
			kind := ""
			for patience.Reset(silence); lines.Scan(); patience.Reset(silence) {
				if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					kind = name
				}
				if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
					if e, err := c.event(kind, data); !yield(e, err) || err != nil {
						return
					}
				}
			}
			err = c.noAnswer(ctx, r, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
		}
		if context.Cause(heard) == errSilent {
			err.Err = errSilent
		}
		yield(Event{}, err)
	}
}

var errSilent = errors.New("nothing was heard for too long")

// open sends a request whose answer has no end.
func (c *Client) open(ctx context.Context, r request) (io.ReadCloser, *Error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, nil)
	if err != nil {
		return nil, &Error{Message: "make the request", Err: err}
	}
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	response, err := c.http.Do(req)
	if err != nil {
		return nil, c.noAnswer(ctx, r, err)
	}
	if response.StatusCode == http.StatusOK && response.Header.Get("Content-Type") == "text/event-stream" {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return nil, c.noAnswer(ctx, r, err)
	}
	if _, refused := c.answer(r, response, text); refused != nil {
		return nil, refused
	}
	return nil, c.foreign(r, response)
}

// eventJSON is an Event, or the end of the stream.
type eventJSON struct {
	Event      string    `json:"event"`
	Time       time.Time `json:"time"`
	Instance   string    `json:"instance"`
	Sink       string    `json:"sink"`
	Topic      string    `json:"topic"`
	ID         string    `json:"id"`
	Key        *string   `json:"key"`
	KeyBase64  []byte    `json:"key_base64"`
	DeliverAt  time.Time `json:"deliver_at"`
	Due        time.Time `json:"due"`
	Attempt    int       `json:"attempt"`
	Reason     string    `json:"reason"`
	Error      string    `json:"error"`
	Input      string    `json:"input"`
	TraceID    string    `json:"trace_id"`
	Changes    []string  `json:"changes"`
	Body       *string   `json:"body"`
	BodyBase64 []byte    `json:"body_base64"`
	Dropped    uint64    `json:"dropped"`
}

func (c *Client) event(kind string, data []byte) (Event, error) {
	var e eventJSON
	err := json.Unmarshal(data, &e)
	switch {
	case err == nil && kind == "end" && e.Reason == "slow":
		err = fmt.Errorf("read too slowly, %d events were dropped", e.Dropped)
	case err == nil && kind == "end":
		err = errors.New("the bridge is " + e.Reason)
	case err == nil:
		if c.answered != nil {
			c.answered(data)
		}
		return Event{Event: e.Event, Time: e.Time, Instance: e.Instance, Sink: e.Sink, Topic: e.Topic, ID: e.ID, Key: bytesOf(e.Key, e.KeyBase64),
			DeliverAt: e.DeliverAt, Due: e.Due, Attempt: e.Attempt, Reason: e.Reason, Error: e.Error, Input: e.Input, TraceID: e.TraceID,
			Changes: e.Changes, Body: bytesOf(e.Body, e.BodyBase64)}, nil
	}
	return Event{}, &Error{Message: "read events", Err: err}
}

func (q *EventQuery) values() url.Values {
	query := make(url.Values)
	for _, sink := range q.Sinks {
		query.Add("sink", sink)
	}
	for _, event := range q.Events {
		query.Add("event", event)
	}
	for name, value := range map[string]string{"topic": q.Topic, "id": q.ID} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setKey(query, q.Key)
	if q.Bodies {
		query.Set("bodies", "true")
	}
	return query
}
