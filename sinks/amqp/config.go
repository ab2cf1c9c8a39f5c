package amqp

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// config is the configuration as written; see the package documentation.
type config struct {
	URLs           []string         `json:"urls"`
	Exchange       string           `json:"exchange"`
	Mandatory      *bool            `json:"mandatory"`
	Persistent     *bool            `json:"persistent"`
	Connections    *int             `json:"connections"`
	Channels       *int             `json:"channels"`
	MaxMessageSize *int             `json:"max_message_size"`
	DialTimeout    string           `json:"dial_timeout"`
	WriteTimeout   string           `json:"write_timeout"`
	Heartbeat      string           `json:"heartbeat"`
	TLS            *tlsfiles.Config `json:"tls"`
}

// settings is the configuration as used.
type settings struct {
	nodes          []node
	exchange       string
	mandatory      bool
	deliveryMode   uint8
	connections    int
	channels       int
	maxMessageSize int
	dialTimeout    time.Duration
	writeTimeout   time.Duration
	heartbeat      time.Duration
}

// node is one broker to connect to.
type node struct {
	addr  string // host:port, fit for logs
	uri   amqp091.URI
	tls   *tls.Config // nil: plain text
	vhost string
}

const (
	defaultMaxMessageSize = 16 << 20
	maxMaxMessageSize     = 512 << 20
	defaultChannels       = 16
	maxConnections        = 64
	maxChannels           = 1024
	minTimeout            = 10 * time.Millisecond
	minHeartbeat          = time.Second
	maxTimeout            = 10 * time.Minute
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field and shows no value,
// as URLs hold passwords.
func decode(raw json.RawMessage) (settings, error) {
	var c config
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return settings{}, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return settings{}, core.Invalidf("config", "has something after its end")
	}
	return c.settings()
}

// explain turns an error of encoding/json into one that names the field.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return core.Invalidf(cmp.Or(wrong.Field, "config"), "can't be a %s", strings.Fields(wrong.Value)[0])
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if field, quoteErr := strconv.Unquote(name); quoteErr == nil {
			return core.Invalidf(core.Shorten(field, 64), "is not a setting of an AMQP sink")
		}
	}
	return core.Invalidf("config", "is not a JSON object")
}

func (c *config) settings() (settings, error) {
	s := settings{exchange: c.Exchange, mandatory: valueOr(c.Mandatory, true), deliveryMode: amqp091.Transient}
	if valueOr(c.Persistent, true) {
		s.deliveryMode = amqp091.Persistent
	}
	if err := checkShort("exchange", c.Exchange); err != nil {
		return settings{}, err
	}
	for _, step := range []func(*settings) error{c.setNumbers, c.setTimes, c.setNodes} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (c *config) setNumbers(s *settings) error {
	for _, n := range []struct {
		field              string
		written            *int
		standard, min, max int
		to                 *int
	}{
		{"connections", c.Connections, 1, 1, maxConnections, &s.connections},
		{"channels", c.Channels, defaultChannels, 1, maxChannels, &s.channels},
		{"max_message_size", c.MaxMessageSize, defaultMaxMessageSize, 1, maxMaxMessageSize, &s.maxMessageSize},
	} {
		if *n.to = valueOr(n.written, n.standard); *n.to < n.min || *n.to > n.max {
			return core.Invalidf(n.field, "must be %d to %d", n.min, n.max)
		}
	}
	return nil
}

func (c *config) setTimes(s *settings) error {
	for _, t := range []struct {
		field, written string
		standard, min  time.Duration
		to             *time.Duration
	}{
		{"dial_timeout", c.DialTimeout, 3 * time.Second, minTimeout, &s.dialTimeout},
		{"write_timeout", c.WriteTimeout, 3 * time.Second, minTimeout, &s.writeTimeout},
		{"heartbeat", c.Heartbeat, 10 * time.Second, minHeartbeat, &s.heartbeat},
	} {
		*t.to = t.standard
		if t.written == "" {
			continue
		}
		d, err := core.ParseDuration(t.written)
		if err != nil {
			return core.Invalidf(t.field, "%v", err)
		}
		if d < t.min || d > maxTimeout {
			return core.Invalidf(t.field, "must be %s to %s", t.min, maxTimeout)
		}
		*t.to = d
	}
	return nil
}

func (c *config) setNodes(s *settings) error {
	if len(c.URLs) == 0 {
		return core.Invalidf("urls", "is missing: give at least one URL such as amqp://user:password@host:5672/")
	}
	encryption, err := c.TLS.Load()
	if err != nil {
		return err
	}
	plain := 0
	for i, text := range c.URLs {
		n, err := parseNode(fmt.Sprintf("urls[%d]", i), text)
		if err != nil {
			return err
		}
		if n.uri.Scheme == "amqps" {
			n.tls = encryption.Clone()
			n.tls.ServerName = cmp.Or(n.tls.ServerName, n.uri.Host)
		} else {
			plain++
		}
		s.nodes = append(s.nodes, n)
	}
	if c.TLS != nil && plain > 0 {
		return core.Invalidf("tls", "is set, but not all URLs begin with amqps://")
	}
	return nil
}

func parseNode(field, text string) (node, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return node{}, core.Invalidf(field, "is not a URL; percent-encode what is special in user and password")
	case u.Scheme != "amqp" && u.Scheme != "amqps":
		return node{}, core.Invalidf(field, "must begin with amqp:// or amqps://")
	case u.Host == "":
		return node{}, core.Invalidf(field, "names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return node{}, core.Invalidf(field, "has a ? or # part; the settings have their own fields")
	}
	uri, err := amqp091.ParseURI(text)
	if err != nil {
		return node{}, core.Invalidf(field, "is not a URL of AMQP")
	}
	return node{addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), uri: uri, vhost: uri.Vhost}, nil
}
