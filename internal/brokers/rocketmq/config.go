// Package rocketmq is how to reach Apache RocketMQ by the remoting protocol: the settings
// of a connection, the connection itself, and what name servers are asked. It is for the
// source and the sink.
package rocketmq

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// ConnectionConfig is the settings of a connection, to be embedded in those of a source
// or a sink. The documentation of the sink explains them.
type ConnectionConfig struct {
	NameServers   []string `json:"name_servers"`
	Group         string   `json:"group"`
	Namespace     string   `json:"namespace"`
	AccessKey     string   `json:"access_key"`
	SecretKey     string   `json:"secret_key"`
	SecurityToken string   `json:"security_token"`
}

// Cluster is how to reach one cluster. Load makes it; Timeout is to be set before use.
type Cluster struct {
	NameServers []string
	Group       string // without the namespace
	Namespace   string
	Credentials Credentials

	Timeout time.Duration // of a dial, and of a write
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	maxNameServers   = 16
	maxTopicLen      = 127
	maxGroupLen      = 255
	maxNamespaceLen  = 64
	maxCredentialLen = 1024

	namespaceChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	nameChars      = namespaceChars + "|%"
)

// Load checks the settings. Every error is a *core.InvalidError that names the field and
// shows no value, as that may be a secret.
func (c *ConnectionConfig) Load() (Cluster, error) {
	made := Cluster{NameServers: c.NameServers, Group: cmp.Or(c.Group, "delaybridge"), Namespace: c.Namespace,
		Credentials: Credentials{c.AccessKey, c.SecretKey, c.SecurityToken}, Dial: (&net.Dialer{}).DialContext}
	for _, check := range []func() error{made.checkNameServers, made.checkNames, made.Credentials.check} {
		if err := check(); err != nil {
			return Cluster{}, err
		}
	}
	return made, nil
}

func (c *Cluster) checkNameServers() error {
	switch {
	case len(c.NameServers) == 0:
		return core.Invalidf("name_servers", "is missing: give at least one host:port")
	case len(c.NameServers) > maxNameServers:
		return core.Invalidf("name_servers", "may be %d at most", maxNameServers)
	}
	for n, address := range c.NameServers {
		if !isAddress(address) {
			return core.Invalidf(fmt.Sprintf("name_servers[%d]", n), "is not host:port")
		}
	}
	return nil
}

// isAddress reports whether address is host:port with nothing in the host that
// could be read as something else, such as a scheme or a second address.
func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsFunc(host, notPrintable) || strings.ContainsAny(host, "/;,@?#") {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

func (c *Cluster) checkNames() error {
	switch {
	case strings.Trim(c.Namespace, namespaceChars) != "" || len(c.Namespace) > maxNamespaceLen:
		return core.Invalidf("namespace", "may hold up to %d of A-Z a-z 0-9 _ - only", maxNamespaceLen)
	case strings.Trim(c.Group, nameChars) != "" || len(c.OnWire(c.Group)) > maxGroupLen:
		return core.Invalidf("group", "may hold up to %d of A-Z a-z 0-9 _ - | %% only, with the namespace", maxGroupLen)
	}
	return nil
}

// OnWire is the name under which the cluster knows a topic or a consumer group.
func (c *Cluster) OnWire(name string) string {
	if c.Namespace == "" {
		return name
	}
	return c.Namespace + "%" + name
}

// CheckTopic reports whether the cluster can have a topic of that name. Which ones are
// reserved depends on what is done with them.
func (c *Cluster) CheckTopic(field, topic string) error {
	switch {
	case topic == "" || strings.Trim(topic, nameChars) != "":
		return core.Invalidf(field, "must be a name of A-Z a-z 0-9 _ - | %%")
	case c.Namespace != "" && strings.Contains(topic, "%"):
		return core.Invalidf(field, "must not hold %%, as there is a namespace")
	case len(c.OnWire(topic)) > maxTopicLen:
		return &core.InvalidError{Field: field, Reason: fmt.Sprintf("is longer than %d bytes, with the namespace", maxTopicLen), TooLarge: true}
	}
	return nil
}
