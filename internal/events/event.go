// Package events tells what happens to messages, as a stream: to readers, who get what
// happens while they read, and to a sink. A Stream is told by a core.Observer. docs/events.md
// describes the JSON of an event, which is the same everywhere.
package events

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

// The events. The second group is final: the last of a message, unless it is redriven.
const (
	Accepted    = "accepted"
	Rescheduled = "rescheduled"
	Retried     = "retried"
	Redriven    = "redriven"
	Reloaded    = "reloaded"

	Delivered = "delivered"
	Dead      = "dead"
	Expired   = "expired"
	Cancelled = "cancelled"
	Discarded = "discarded"
)

// All returns the events.
func All() []string { return append(others(), Delivered, Dead, Expired, Cancelled, Discarded) }

// others returns the events that are not final.
func others() []string { return []string{Accepted, Rescheduled, Retried, Redriven, Reloaded} }

// Event is what happened to one message, or what an operator did. Fields that are not
// known are empty.
type Event struct {
	EventID    string          `json:"event_id,omitempty"` // only in a sink
	Event      string          `json:"event"`
	Time       string          `json:"time"`
	Instance   string          `json:"instance"`
	Sink       string          `json:"sink,omitempty"`
	Topic      string          `json:"topic,omitempty"`
	ID         string          `json:"id,omitempty"`
	Key        *string         `json:"key,omitempty"`
	KeyBase64  []byte          `json:"key_base64,omitempty"`
	DeliverAt  string          `json:"deliver_at,omitempty"`
	Due        string          `json:"due,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	Input      string          `json:"input,omitempty"`
	TraceID    string          `json:"trace_id,omitempty"`
	Changes    []string        `json:"changes,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// maxError bounds the text of an error in an event.
const maxError = 256

// about fills in what a message tells.
func (e *Event) about(m *core.Message) {
	e.Sink, e.Topic, e.ID, e.DeliverAt = m.Sink, m.Topic, m.ID, timeText(m.DeliverAt)
	e.setKey(m.Key)
	e.TraceID = m.TraceID()
}

func (e *Event) setKey(key []byte) {
	switch {
	case key == nil:
	case utf8.Valid(key):
		text := string(key)
		e.Key = &text
	default:
		e.KeyBase64 = key
	}
}

// ended fills in how an attempt, or a message, ended.
func (e *Event) ended(m *core.Message, o *core.Outcome) {
	e.about(m)
	e.Event, e.Reason, e.Error = string(o.State), o.Reason, core.Shorten(o.Error, maxError)
	e.Attempt = o.Attempts
	switch o.State {
	case core.Delivered:
		e.Attempt = m.Attempt
	case core.Retrying:
		e.Event = Retried
	}
}

// encode returns the JSON in one line, with the body of m if it is not nil.
func (e *Event) encode(m *core.Message) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	shown := *e
	if m != nil {
		shown.setBody(m.Body)
	}
	if err := encoder.Encode(shown); err != nil {
		panic(err) // an Event has plain fields only
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func (e *Event) setBody(body []byte) {
	switch {
	case body == nil:
		e.Body = json.RawMessage("null")
	case utf8.Valid(body):
		e.Body, _ = json.Marshal(string(body)) // a string can be marshalled
	default:
		e.BodyBase64 = body
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(core.TimeFormat)
}
