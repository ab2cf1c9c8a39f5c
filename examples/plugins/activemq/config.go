package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// config is the configuration as written. README.md has what it means.
type config struct {
	Address      string     `json:"address"`
	Login        string     `json:"login"`
	Passcode     string     `json:"passcode"`
	TLS          *tlsConfig `json:"tls"`
	Destination  string     `json:"destination"`
	Connections  int        `json:"connections"`
	MaxBodyBytes int        `json:"max_body_bytes"`
	DialTimeout  string     `json:"dial_timeout"`
}

// settings is the configuration as used.
type settings struct {
	config
	prefix      string // of destinations
	dialTimeout time.Duration
	tls         *tls.Config // nil: plain text
}

const (
	maxConnections = 64
	maxMaxBody     = 16 << 20
)

// open checks the configuration; connections are made when they are needed.
func open(_ context.Context, raw json.RawMessage) (core.Sink, error) {
	c := config{Destination: "queue", Connections: 4, MaxBodyBytes: 1 << 20, DialTimeout: "5s"}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, explain(err)
	}
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	return newSink(s), nil
}

// explain names the field that a decoding error is about, and shows no value.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return core.Invalidf(wrong.Field, "must be a %s", wrong.Type)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return core.Invalidf(strings.Trim(name, `"`), "is not known")
	}
	return core.Invalidf("config", "is not a JSON object")
}

// settings reports every fault at once.
func (c config) settings() (settings, error) {
	s := settings{config: c, prefix: "/" + c.Destination + "/"}
	var faults []error
	refuse := func(wrong bool, field, format string, args ...any) {
		if wrong {
			faults = append(faults, core.Invalidf(field, format, args...))
		}
	}
	host, port, err := net.SplitHostPort(c.Address)
	refuse(err != nil || host == "" || port == "", "address", "must be host:port")
	refuse(strings.ContainsAny(c.Login, "\r\n\x00"), "login", "must be one line")
	refuse(strings.ContainsAny(c.Passcode, "\r\n\x00"), "passcode", "must be one line")
	refuse(c.Destination != "queue" && c.Destination != "topic", "destination", "must be queue or topic")
	refuse(c.Connections < 1 || c.Connections > maxConnections, "connections", "must be 1 to %d", maxConnections)
	refuse(c.MaxBodyBytes < 1 || c.MaxBodyBytes > maxMaxBody, "max_body_bytes", "must be 1 to %d", maxMaxBody)
	s.dialTimeout, err = time.ParseDuration(c.DialTimeout)
	refuse(err != nil || s.dialTimeout <= 0, "dial_timeout", "must be a duration such as 5s")
	if c.TLS != nil {
		if s.tls, err = c.TLS.load(); err != nil {
			faults = append(faults, err)
		} else if s.tls.ServerName == "" {
			s.tls.ServerName = host
		}
	}
	return s, errors.Join(faults...)
}
