//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// message is what a producer sends.
type message struct {
	ID      string   `json:"id,omitempty"`
	Topic   string   `json:"topic"`
	Key     *string  `json:"key,omitempty"`
	Headers []header `json:"headers"`
	Body    string   `json:"body"`
	Delay   string   `json:"delay"`
	Sink    string   `json:"sink,omitempty"`

	keyless bool // its target shows consumers no keys
}

func (m message) content() string {
	key := ""
	if m.Key != nil && !m.keyless {
		key = *m.Key
	}
	return content(m.Topic, key, m.Headers, m.Body)
}

// answer is what the listener says, be it a receipt, a message or a problem.
type answer struct {
	ID              string    `json:"id"`
	State           string    `json:"state"`
	DeliverAt       time.Time `json:"deliver_at"`
	Duplicate       bool      `json:"duplicate"`
	MayHaveBeenSent bool      `json:"may_have_been_sent"`
	Attempt         int       `json:"attempt"`
	Code            string    `json:"code"`
	Stored          any       `json:"stored"`
	Changed         any       `json:"changed"`
}

const callTimeout = 6 * time.Second

// call asks the listener of b and fills in the entry what came of it. It is the
// caller's to note.
func (r *run) call(b *bridge, e entry, method, path string, body any) entry {
	e.Bridge, e.Call = b.incarnation(), time.Now()
	status, a, err := r.exchange(b, method, path, body)
	e.Return, e.Code = time.Now(), a.Code
	e.ID, e.State, e.Due, e.Sent, e.Attempt = a.ID, a.State, a.DeliverAt, a.MayHaveBeenSent, a.Attempt
	e.Outcome = outcomeOf(status, a, err)
	return e
}

// outcomeOf is what an answer means by the contract; docs/http.md has it.
func outcomeOf(status int, a answer, err error) outcome {
	switch {
	case err != nil && notSent(err):
		return refused
	case err != nil:
		return unknown
	case status == http.StatusOK && a.Duplicate:
		return duplicate
	case status == http.StatusOK, status == http.StatusCreated:
		return done
	case a.Code == "conflict":
		return conflict
	case a.Code == "too_late":
		return tooLate
	case a.Code == "not_found":
		return notFound
	case status >= 400 && status < 500, a.Stored == false, a.Changed == false, status == http.StatusServiceUnavailable && a.Code != "outcome_unknown" && a.Stored == nil && a.Changed == nil:
		return refused
	}
	return unknown
}

var errNoBridge = errors.New("no bridge is there")

// notSent tells whether the request never left.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, errNoBridge) || errors.As(err, &op) && op.Op == "dial"
}

func (r *run) exchange(b *bridge, method, path string, body any) (status int, a answer, err error) {
	status, text, err := r.request(b, method, path, body)
	if err != nil {
		return 0, a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return 0, a, fmt.Errorf("answer %q: %w", text, err)
	}
	return status, a, nil
}

// request sends one request, never twice, and returns the whole answer.
func (r *run) request(b *bridge, method, path string, body any) (status int, text []byte, err error) {
	address := b.address()
	if address == "" {
		return 0, nil, errNoBridge
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, address+path, content)
	if err != nil {
		return 0, nil, err
	}
	request.GetBody = nil // or the client would send it again
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

func (r *run) accept(b *bridge, name string, m message, delay time.Duration) entry {
	e := entry{Kind: accepting, Name: name, Generated: m.ID == "", Content: m.content(), Least: time.Now().Add(delay)}
	e = r.call(b, e, http.MethodPost, "/v1/messages", m)
	if e.Outcome == duplicate || e.ID == "" {
		e.ID = m.ID
	}
	return e
}

func (r *run) cancel(b *bridge, name, id string) entry {
	return r.call(b, entry{Kind: cancelling, Name: name}, http.MethodDelete, pathOf(id), nil)
}

func (r *run) reschedule(b *bridge, name, id string, delay time.Duration) entry {
	e := entry{Kind: rescheduling, Name: name, Least: time.Now().Add(delay)}
	return r.call(b, e, http.MethodPatch, pathOf(id), map[string]string{"delay": fmt.Sprintf("%dms", delay.Milliseconds())})
}

func (r *run) get(b *bridge, name, id string) entry {
	return r.call(b, entry{Kind: looking, Name: name}, http.MethodGet, pathOf(id), nil)
}

// redrive makes a dead letter due at once.
func (r *run) redrive(b *bridge, name, id string) entry {
	return r.call(b, entry{Kind: redriving, Name: name, Least: time.Now()}, http.MethodPost, "/v1/dead/"+url.PathEscape(id)+"/redrive", nil)
}

func (r *run) discard(b *bridge, name, id string) entry {
	return r.call(b, entry{Kind: discarding, Name: name}, http.MethodDelete, "/v1/dead/"+url.PathEscape(id), nil)
}

func pathOf(id string) string { return "/v1/messages/" + url.PathEscape(id) }

// deadLetters notes what was given up, by id.
func (r *run) deadLetters(b *bridge) error {
	for cursor := ""; ; {
		path := "/v1/dead?limit=500"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		status, text, err := r.request(b, http.MethodGet, path, nil)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("list dead letters: %d %s: %w", status, text, err)
		}
		var page struct {
			Messages []struct {
				ID      string   `json:"id"`
				Reason  string   `json:"reason"`
				Attempt int      `json:"attempt"`
				Headers []header `json:"headers"`
			} `json:"messages"`
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return fmt.Errorf("list dead letters: %w", err)
		}
		for _, m := range page.Messages {
			if r.buried[m.ID] {
				continue
			}
			r.buried[m.ID] = true
			r.ledger.note(printed{ID: m.ID, Headers: m.Headers, Attempt: m.Attempt}.death(m.Reason))
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

func (p printed) death(reason string) entry {
	e := p.entry("", time.Now())
	if e.Name[0] == '?' { // a list may leave headers out, and most ids are names
		e.Name = p.ID
	}
	return entry{Kind: dying, Name: e.Name, ID: p.ID, Call: e.Return, Return: e.Return, State: "dead", Code: reason, Attempt: p.Attempt}
}
