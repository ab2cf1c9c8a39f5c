package amqp

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	strict "github.com/delaybridge/delaybridge/internal/settings"
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
	if err := strict.Decode(raw, &c, "an AMQP sink"); err != nil {
		return settings{}, err
	}
	return c.settings()
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
	return strict.Ints(
		strict.Int{Field: "connections", Given: c.Connections, Standard: 1, Min: 1, Max: maxConnections, To: &s.connections},
		strict.Int{Field: "channels", Given: c.Channels, Standard: defaultChannels, Min: 1, Max: maxChannels, To: &s.channels},
		strict.Int{Field: "max_message_size", Given: c.MaxMessageSize, Standard: defaultMaxMessageSize, Min: 1, Max: maxMaxMessageSize, To: &s.maxMessageSize},
	)
}

func (c *config) setTimes(s *settings) error {
	return strict.Durations(
		strict.Duration{Field: "dial_timeout", Text: c.DialTimeout, Standard: 3 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.dialTimeout},
		strict.Duration{Field: "write_timeout", Text: c.WriteTimeout, Standard: 3 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.writeTimeout},
		strict.Duration{Field: "heartbeat", Text: c.Heartbeat, Standard: 10 * time.Second, Min: minHeartbeat, Max: maxTimeout, To: &s.heartbeat},
	)
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
