package main

import (
	"encoding/base64"
	"unicode/utf8"
)

// The JSON of the HTTP listener, as far as the commands need it. What a command
// prints as JSON is the server's own text.

// newMessage is the body of POST /v1/messages.
type newMessage struct {
	ID         string            `json:"id,omitempty"`
	Sink       string            `json:"sink,omitempty"`
	Topic      string            `json:"topic"`
	Key        *string           `json:"key,omitempty"`
	Headers    []header          `json:"headers,omitempty"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 *string           `json:"body_base64,omitempty"`
	TTL        string            `json:"ttl,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	Options    map[string]string `json:"options,omitempty"`
	when
}

// when is the body of PATCH /v1/messages/{id}.
type when struct {
	Delay     string `json:"delay,omitempty"`
	DeliverAt string `json:"deliver_at,omitempty"`
}

type header struct {
	Name        string  `json:"name"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

// setBody chooses the form that carries body byte for byte.
func (m *newMessage) setBody(body []byte) {
	if text := string(body); utf8.ValidString(text) {
		m.Body = &text
		return
	}
	text := base64.StdEncoding.EncodeToString(body)
	m.BodyBase64 = &text
}

// receipt is what accept and the calls by ID answer.
type receipt struct {
	ID         string `json:"id"`
	Sink       string `json:"sink"`
	State      string `json:"state"`
	DeliverAt  string `json:"deliver_at"`
	Durability string `json:"durability"`
	Duplicate  bool   `json:"duplicate"`
	Attempt    int    `json:"attempt"`
}

// entry is a stored message.
type entry struct {
	ID         string            `json:"id"`
	Sink       string            `json:"sink"`
	Topic      string            `json:"topic"`
	State      string            `json:"state"`
	Due        string            `json:"due"`
	DeliverAt  string            `json:"deliver_at"`
	ExpiresAt  string            `json:"expires_at"`
	Priority   int               `json:"priority"`
	Attempt    int               `json:"attempt"`
	Reason     string            `json:"reason"`
	Error      string            `json:"error"`
	Key        *string           `json:"key"`
	KeyBase64  *string           `json:"key_base64"`
	Headers    []header          `json:"headers"`
	Options    map[string]string `json:"options"`
	Body       *string           `json:"body"`
	BodyBase64 *string           `json:"body_base64"`
	BodySize   int               `json:"body_size"`
}
