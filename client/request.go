package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// request is what one try sends.
type request struct {
	method, path string // the path is escaped and has its query
	form         string // the body's media type
	body         []byte
}

// reads reports whether the request changes nothing.
func (r request) reads() bool { return r.method == http.MethodGet }

// good reports whether an answer with this status is no error: readiness is in the body.
func (r request) good(status int) bool {
	return status/100 == 2 || r.path == pathReady && status == http.StatusServiceUnavailable
}

const (
	formJSON   = "application/json"
	formNDJSON = "application/x-ndjson"
	// maxReply bounds what is read of an answer: a page of 500 messages, or one
	// with the largest body.
	maxReply = 128 << 20
	// longestAfter bounds how long a Retry-After is heeded.
	longestAfter = 30 * time.Second
)

// send makes one try and returns the body of an answer that is good.
func (c *Client) send(ctx context.Context, r request) ([]byte, *Error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	tryCtx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(tryCtx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, &Error{Message: "make the request", Err: err}
	}
	if r.body != nil {
		req.Header.Set("Content-Type", r.form)
	}
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	response, err := c.http.Do(req)
	if err != nil {
		return nil, c.noAnswer(ctx, r, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	if err != nil {
		return nil, c.noAnswer(ctx, r, err)
	}
	return c.answer(r, response, body)
}

// ended is the error of a call whose context ended before anything was sent.
func ended(ctx context.Context) *Error {
	return &Error{Message: "not sent", Err: ctx.Err()}
}

// noAnswer says why there was none, and whether the request may have arrived.
func (c *Client) noAnswer(ctx context.Context, r request, err error) *Error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // it repeats method and URL
	}
	e := &Error{Message: "ask " + c.base, Err: err, Unknown: !r.reads(), unavailable: true, again: true}
	switch {
	case ctx.Err() != nil:
		e.Err, e.again = ctx.Err(), false
	case wrongPeer(err):
		e.Unknown, e.unavailable, e.again = false, false, false
	case dialing(err):
		e.Unknown = false
	case errors.Is(err, context.DeadlineExceeded):
		e.Err = fmt.Errorf("no answer within %s", c.timeout) // not the caller's deadline
	}
	return e
}

// dialing reports whether there was no connection yet.
func dialing(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// wrongPeer tells a certificate that is not trusted, and a server without TLS:
// nothing was sent, and nothing will change by itself.
func wrongPeer(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || errors.Is(err, http.ErrSchemeMismatch)
}

// answer tells a good answer from a problem, and both from one that is not the
// bridge's.
func (c *Client) answer(r request, response *http.Response, body []byte) ([]byte, *Error) {
	form, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if r.good(response.StatusCode) && (form == formJSON || form == formNDJSON) && len(body) <= maxReply {
		if c.answered != nil {
			c.answered(body)
		}
		return body, nil
	}
	if form == "application/problem+json" {
		if e := problem(body, r.reads()); e != nil && e.Status == response.StatusCode {
			e.after = retryAfter(response)
			return nil, e
		}
	}
	return nil, c.foreign(r, response)
}

// problemJSON is an error as the bridge tells it.
type problemJSON struct {
	Status          int
	Code            string
	Title           string
	Detail          string
	Field           string
	State           State
	Stored, Changed json.RawMessage
}

// problem reads an error; nil if it is none. A fault that does not say what
// became of a change leaves that open.
func problem(text []byte, reads bool) *Error {
	var p problemJSON
	if err := json.Unmarshal(text, &p); err != nil || p.Code == "" || p.Status < 400 {
		return nil
	}
	e := &Error{Status: p.Status, Code: p.Code, Field: p.Field, Message: p.Detail, State: p.State}
	if e.Message == "" {
		e.Message = p.Title
	}
	untouched := string(p.Stored) == "false" || string(p.Changed) == "false"
	e.Unknown = p.Status >= 500 && !reads && !untouched
	e.again = again(p.Status)
	return e
}

// again tells with which answers a repeat may go better.
func again(status int) bool {
	return status >= 500 && status != http.StatusNotImplemented ||
		status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// foreign is for what a proxy says, or something else that is at the URL. Where
// a proxy gave up waiting, the bridge may have done what was asked.
func (c *Client) foreign(r request, response *http.Response) *Error {
	later := again(response.StatusCode)
	return &Error{
		Status: response.StatusCode, Message: fmt.Sprintf("ask %s: the answer %s is not delaybridge's", c.base, response.Status),
		Unknown:     !r.reads() && (response.StatusCode >= 500 || response.StatusCode < 300),
		unavailable: later, again: later, after: retryAfter(response),
	}
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1000))*time.Second, longestAfter)
}
