package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// receiptJSON is what accept and the calls by ID answer.
type receiptJSON struct {
	ID              string    `json:"id"`
	Sink            string    `json:"sink"`
	State           State     `json:"state"`
	DeliverAt       time.Time `json:"deliver_at"`
	Durability      string    `json:"durability"`
	Duplicate       bool      `json:"duplicate"`
	Attempt         int       `json:"attempt"`
	MayHaveBeenSent bool      `json:"may_have_been_sent"`
}

// readReceipt reads the receipt of the message with this ID.
func readReceipt(text []byte, id string) (Receipt, error) {
	var r receiptJSON
	if err := json.Unmarshal(text, &r); err != nil {
		return Receipt{}, fmt.Errorf("not a receipt: %w", err)
	}
	if r.ID != id || r.State == "" {
		return Receipt{}, errors.New("not a receipt of this message")
	}
	return Receipt(r), nil
}

// entryJSON is a stored message.
type entryJSON struct {
	ID              string            `json:"id"`
	Generated       bool              `json:"generated"`
	Sink            string            `json:"sink"`
	State           State             `json:"state"`
	Topic           string            `json:"topic"`
	Key             *string           `json:"key"`
	KeyBase64       []byte            `json:"key_base64"`
	Headers         []headerJSON      `json:"headers"`
	Body            *string           `json:"body"`
	BodyBase64      []byte            `json:"body_base64"`
	BodySize        int               `json:"body_size"`
	Options         map[string]string `json:"options"`
	DeliverAt       time.Time         `json:"deliver_at"`
	ExpiresAt       time.Time         `json:"expires_at"`
	Due             time.Time         `json:"due"`
	Priority        int               `json:"priority"`
	Attempt         int               `json:"attempt"`
	MayHaveBeenSent bool              `json:"may_have_been_sent"`
	Reason          string            `json:"reason"`
	Error           string            `json:"error"`
}

type headerJSON struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64"`
}

func (e *entryJSON) entry() Entry {
	m := Message{
		ID: e.ID, Sink: e.Sink, Topic: e.Topic, Key: bytesOf(e.Key, e.KeyBase64), Body: bytesOf(e.Body, e.BodyBase64),
		Options: e.Options, DeliverAt: e.DeliverAt, ExpiresAt: e.ExpiresAt, Priority: e.Priority,
	}
	for _, h := range e.Headers {
		m.Headers = append(m.Headers, Header{Name: h.Name, Value: bytesOf(h.Value, h.ValueBase64)})
	}
	return Entry{Message: m, Generated: e.Generated, State: e.State, Due: e.Due, Attempt: e.Attempt,
		MayHaveBeenSent: e.MayHaveBeenSent, Reason: e.Reason, Error: e.Error, BodySize: e.BodySize}
}

// bytesOf returns what was given as text, or else as base64; nil is null.
func bytesOf(text *string, raw []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return raw
}
