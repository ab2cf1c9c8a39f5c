// Package amqp connects to RabbitMQ, or to another AMQP 0-9-1 broker: it has the settings
// of a connection, and the connection itself, for the source and the sink.
package amqp

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// ConnectionConfig has the settings of a connection, embedded in those of the source
// and the sink. The documentation of the sink describes them.
type ConnectionConfig struct {
	URLs         []string         `json:"urls"`
	DialTimeout  string           `json:"dial_timeout"`
	WriteTimeout string           `json:"write_timeout"`
	Heartbeat    string           `json:"heartbeat"`
	TLS          *tlsfiles.Config `json:"tls"`
}

// Cluster is one or more equivalent nodes. Load creates it.
type Cluster struct {
	// DialTimeout bounds a dial, TLS and login included, and each short request after
	// it, such as opening a channel.
	DialTimeout time.Duration
	// Wrap, if not nil, wraps each connection that the client library uses.
	Wrap func(net.Conn) net.Conn

	nodes        []node
	writeTimeout time.Duration
	heartbeat    time.Duration
}

// node is one broker to connect to.
type node struct {
	addr string // host:port, fit for logs
	uri  amqp091.URI
	tls  *tls.Config // nil: plain text
}

// Bounds of all timeouts.
const (
	MinTimeout   = 10 * time.Millisecond
	MaxTimeout   = 10 * time.Minute
	minHeartbeat = time.Second
)

// Load checks the settings and reads the files that they name. Every error is a
// *core.InvalidError that names the field and shows no value, as URLs hold passwords.
func (c *ConnectionConfig) Load() (Cluster, error) {
	var made Cluster
	if err := c.loadNodes(&made); err != nil {
		return Cluster{}, err
	}
	return made, settings.Durations(
		settings.Duration{Field: "dial_timeout", Text: c.DialTimeout, Standard: 3 * time.Second, Min: MinTimeout, Max: MaxTimeout, To: &made.DialTimeout},
		settings.Duration{Field: "write_timeout", Text: c.WriteTimeout, Standard: 3 * time.Second, Min: MinTimeout, Max: MaxTimeout, To: &made.writeTimeout},
		settings.Duration{Field: "heartbeat", Text: c.Heartbeat, Standard: 10 * time.Second, Min: minHeartbeat, Max: MaxTimeout, To: &made.heartbeat},
	)
}

func (c *ConnectionConfig) loadNodes(to *Cluster) error {
	if len(c.URLs) == 0 {
		return core.Invalidf("urls", "is missing: give at least one URL such as amqp://user:password@host:5672/")
	}
	encryption, err := c.TLS.Load()
	if err != nil {
		return err
	}
	for i, text := range c.URLs {
		n, err := parseNode(fmt.Sprintf("urls[%d]", i), text)
		if err != nil {
			return err
		}
		if n.uri.Scheme == "amqps" {
			n.tls = encryption.Clone()
			n.tls.ServerName = cmp.Or(n.tls.ServerName, n.uri.Host)
		} else if c.TLS != nil {
			return core.Invalidf("tls", "is set, but not all URLs begin with amqps://")
		}
		to.nodes = append(to.nodes, n)
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
	return node{addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), uri: uri}, nil
}

const maxShort = 255

// CheckShort returns a *core.InvalidError if text does not fit into a short string of
// the protocol, the type of all names and most properties. The library closes the whole
// connection on a longer one.
func CheckShort(field, text string) error {
	switch {
	case len(text) > maxShort:
		return &core.InvalidError{Field: field, Reason: fmt.Sprintf("is longer than %d bytes", maxShort), TooLarge: true}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return core.Invalidf(field, "has control characters or invalid UTF-8")
	}
	return nil
}
