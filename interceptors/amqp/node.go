package amqpsource

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

// node is one broker to connect to.
type node struct {
	addr string // host:port, fit for logs
	uri  amqp091.URI
	tls  *tls.Config // nil: plain text
}

func (c *config) setNodes(s *settings) error {
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
		s.nodes = append(s.nodes, n)
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
