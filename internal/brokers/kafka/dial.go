package kafkaconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/sasl"
)

// Dialer makes connections to the brokers of one cluster.
type Dialer struct {
	Seeds          []string // host:port of the brokers to begin with
	ClientID       string
	TLS            *tls.Config    // nil: plain text
	SASL           sasl.Mechanism // nil: no login
	DialTimeout    time.Duration  // TLS and login included
	RequestTimeout time.Duration  // for who uses the connection
	DialContext    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Conn is a connection to a broker, ready for requests. It is for one goroutine.
type Conn struct {
	Raw      net.Conn       // the socket; to close it ends the connection at once
	Stream   *protocol.Conn // over TLS where that is on
	ClientID string
	Versions map[protocol.ApiKey]int16 // the newest that both sides know, by request

	offered []apiversions.ApiKeyResponse
	expires time.Time // of the login; zero is never
}

// ErrTooOld is the error on brokers that are older than Kafka 1.0.
var ErrTooOld = errors.New("broker is older than Kafka 1.0")

// minProduceVersion is the first with record batches, and so with headers. Version 4
// of fetch came with it.
const minProduceVersion = 3

// Dial makes a connection within the dial timeout, TLS, versions and login
// included. ctx bounds the making only.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.DialTimeout, errors.New("took longer than the dial timeout"))
	defer cancel()
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	made, err := d.introduce(ctx, raw, address)
	if !stop() || err != nil {
		raw.Close()
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	return made, nil
}

// introduce does all that comes before the first request.
func (d *Dialer) introduce(ctx context.Context, raw net.Conn, address string) (*Conn, error) {
	stream := raw
	if d.TLS != nil {
		secured := tls.Client(raw, d.tlsFor(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		stream = secured
	}
	made := &Conn{Raw: raw, Stream: protocol.NewConn(stream, d.ClientID), ClientID: d.ClientID}
	if err := made.negotiate(); err != nil {
		return nil, fmt.Errorf("agree on versions: %w", err)
	}
	if d.SASL == nil {
		return made, nil
	}
	if err := made.login(ctx, d.SASL, address); err != nil {
		return nil, fmt.Errorf("log in by %s: %w", d.SASL.Name(), err)
	}
	return made, nil
}

func (d *Dialer) tlsFor(address string) *tls.Config {
	if d.TLS.ServerName != "" {
		return d.TLS
	}
	named := d.TLS.Clone()
	named.ServerName, _, _ = net.SplitHostPort(address)
	return named
}

// negotiate finds the newest version of each request that both sides know.
func (c *Conn) negotiate() error {
	answer, err := c.Stream.RoundTrip(new(apiversions.Request))
	if err != nil {
		return err
	}
	told := answer.(*apiversions.Response)
	if told.ErrorCode != 0 {
		return kafka.Error(told.ErrorCode)
	}
	c.offered = told.ApiKeys
	c.Versions = make(map[protocol.ApiKey]int16, len(c.offered))
	for _, api := range c.offered {
		key := protocol.ApiKey(api.ApiKey)
		c.Versions[key] = key.SelectVersion(api.MinVersion, api.MaxVersion)
	}
	if c.Versions[protocol.Produce] < minProduceVersion {
		return ErrTooOld
	}
	c.Stream.SetVersions(c.Versions)
	return nil
}

// Offers reports whether the broker knows a version of a request, kafka-go or not.
func (c *Conn) Offers(key protocol.ApiKey, version int16) bool {
	for _, api := range c.offered {
		if protocol.ApiKey(api.ApiKey) == key {
			return api.MinVersion <= version && version <= api.MaxVersion
		}
	}
	return false
}

// Send writes a request in the version of Versions, with an ID that the answer will
// have, too.
func (c *Conn) Send(request protocol.Message, id int32) error {
	version := c.Versions[request.ApiKey()]
	if prepared, ok := request.(protocol.PreparedMessage); ok {
		prepared.Prepare(version)
	}
	return protocol.WriteRequest(c.Stream, version, id, c.ClientID, request)
}
