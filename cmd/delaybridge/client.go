package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// client talks to the HTTP listener of a running bridge.
type client struct {
	base    *url.URL
	token   string
	timeout time.Duration
	http    *http.Client
}

// maxReply bounds what is read of one answer: a page of 500 messages, or one
// message with the largest body.
const maxReply = 128 << 20

func newClient(base, token string, timeout time.Duration) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, usageError("the server's URL must be of the form http://host:port")
	}
	if timeout <= 0 {
		return nil, usageError("the timeout must be more than 0s")
	}
	// A redirect would carry the token to another place.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{base: u, token: token, timeout: timeout, http: &http.Client{CheckRedirect: refuse}}, nil
}

// call sends in, if not nil, as JSON and returns the JSON that was answered. An
// error is a *problem if the bridge answered with one.
func (c *client) call(ctx context.Context, method, path string, query url.Values, in any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, method, path, query, in)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return nil, c.unreachable(ctx, fmt.Errorf("read the answer: %w", err))
	}
	return c.answer(response, body)
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	target := strings.TrimSuffix(c.base.String(), "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// unreachable says where it was tried. The URL has no secrets, see newClient.
func (c *client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("interrupted: %w", context.Canceled)
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	return coded(exitUnreachable, fmt.Errorf("ask %s: %w", c.base, err))
}

func (c *client) answer(response *http.Response, body []byte) (json.RawMessage, error) {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	good := response.StatusCode/100 == 2
	switch {
	case good && kind == "application/json" && json.Valid(body):
		return body, nil
	case good && len(body) == 0:
		return nil, nil
	case !good && kind == "application/problem+json":
		p := &problem{}
		if err := json.Unmarshal(body, p); err == nil && p.Status == response.StatusCode {
			return nil, p
		}
	}
	return nil, fmt.Errorf("ask %s: it answered %s and not as delaybridge does", c.base, response.Status)
}

// problem is an error that the bridge answered with, as in RFC 9457.
type problem struct {
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Code   string          `json:"code"`
	Detail string          `json:"detail"`
	ID     string          `json:"id"`
	State  string          `json:"state"`
	Stored json.RawMessage `json:"stored"`
}

func (p *problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.State != "" {
		text += ", it is " + p.State
	}
	if string(p.Stored) == `"unknown"` && p.ID != "" {
		text += "; to be sure, send it again with --id " + p.ID
	}
	return escape(fmt.Sprintf("%s [%s]", text, p.Code))
}
