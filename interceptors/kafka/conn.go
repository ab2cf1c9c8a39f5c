package kafkasource

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

// conn is one connection to a broker, on which records are fetched. It is for
// one goroutine.
type conn struct {
	raw      net.Conn
	stream   *protocol.Conn // over TLS where that is on
	clientID string
	version  int16 // of fetch requests and answers, if they name the topic
	byID     bool  // the broker can be asked for a topic by its ID
	lastID   int32
	patience time.Duration // of the exchange under way
}

var (
	errTooOld  = errors.New("broker is older than Kafka 1.0")
	errUnasked = errors.New("broker sent an answer that was not asked for")
)

// open makes a connection within the dial timeout, TLS, versions and login
// included.
func (s *settings) open(ctx context.Context, address string) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.dialTimeout, errors.New("took longer than the dial timeout"))
	defer cancel()
	raw, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	made, err := s.introduce(ctx, raw, address)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return made, nil
}

// mortal returns a dial function whose connections end stopGrace after ctx has,
// or with release. The group's library heeds no context, and may wait for an
// answer for as long as the slowest member takes to join. What it sets no limit to
// is limited by the dial timeout.
func (s *settings) mortal(ctx context.Context) (dial dialFunc, release func()) {
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() {
		wait(life, s.stopGrace)
		end()
	})
	dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if life.Err() != nil {
			return nil, net.ErrClosed
		}
		conn, err := s.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		forget := context.AfterFunc(life, func() { conn.Close() })
		return &impatient{conn, s.dialTimeout, forget}, nil
	}
	return dial, func() { stop(); end() }
}

// impatient is a connection on which nothing is waited for longer than limit if
// nothing else is said. The group's library sets no limit to a login.
type impatient struct {
	net.Conn
	limit  time.Duration
	forget func() bool // by whom it would be closed in the end
}

// Close implements net.Conn.
func (c impatient) Close() error {
	c.forget()
	return c.Conn.Close()
}

func (c impatient) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.atLatest(t)) }
func (c impatient) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.atLatest(t)) }
func (c impatient) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.atLatest(t)) }

func (c impatient) atLatest(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now().Add(c.limit)
	}
	return t
}

// introduce does all that comes before the first request of ours.
func (s *settings) introduce(ctx context.Context, raw net.Conn, address string) (*conn, error) {
	stream := raw
	if s.tls != nil {
		secured := tls.Client(raw, s.tlsFor(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		stream = secured
	}
	made := &conn{raw: raw, stream: protocol.NewConn(stream, s.clientID), clientID: s.clientID}
	if err := made.negotiate(); err != nil {
		return nil, fmt.Errorf("agree on versions: %w", err)
	}
	if s.sasl == nil {
		return made, nil
	}
	if err := made.login(ctx, s.sasl, address); err != nil {
		return nil, fmt.Errorf("log in by %s: %w", s.sasl.Name(), err)
	}
	return made, nil
}

func (s *settings) tlsFor(address string) *tls.Config {
	if s.tls.ServerName != "" {
		return s.tls
	}
	named := s.tls.Clone()
	named.ServerName, _, _ = net.SplitHostPort(address)
	return named
}

// negotiate finds the newest version of each request that both sides know.
func (c *conn) negotiate() error {
	answer, err := c.stream.RoundTrip(new(apiversions.Request))
	if err != nil {
		return err
	}
	offered := answer.(*apiversions.Response)
	if offered.ErrorCode != 0 {
		return kafka.Error(offered.ErrorCode)
	}
	versions := make(map[protocol.ApiKey]int16, len(offered.ApiKeys))
	for _, api := range offered.ApiKeys {
		key := protocol.ApiKey(api.ApiKey)
		versions[key] = key.SelectVersion(api.MinVersion, api.MaxVersion)
		c.byID = c.byID || key == protocol.Fetch && api.MinVersion <= fetchByID && fetchByID <= api.MaxVersion
	}
	if c.version = versions[protocol.Fetch]; c.version < minFetch {
		return errTooOld
	}
	c.stream.SetVersions(versions)
	return nil
}

func (c *conn) login(ctx context.Context, mechanism sasl.Mechanism, address string) error {
	answer, err := c.stream.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return err
	}
	if code := answer.(*saslhandshake.Response).ErrorCode; code != 0 {
		return kafka.Error(code)
	}
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	session, message, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: number}))
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = c.authenticate(message); err == nil {
			done, message, err = session.Next(ctx, challenge)
		}
	}
	return err
}

// authenticate is one step of a login.
func (c *conn) authenticate(message []byte) (challenge []byte, err error) {
	answer, err := c.stream.RoundTrip(&saslauthenticate.Request{AuthBytes: message})
	if err != nil {
		return nil, err
	}
	step := answer.(*saslauthenticate.Response)
	if step.ErrorCode != 0 {
		return nil, kafka.Error(step.ErrorCode)
	}
	return step.AuthBytes, nil
}

// within lets what do its exchange end by timeout and with ctx. After an error the
// connection is of no more use.
func (c *conn) within(ctx context.Context, timeout time.Duration, what func() error) error {
	c.patience = timeout
	if err := c.raw.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.raw.Close() })
	err := what()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// roomFor returns memory for an answer of n bytes. It may wait.
type roomFor func(n int) ([]byte, error)

// fetch sends a request and returns the answer without its head, and its version. Of
// an answer that is longer than most, the rest is thrown away. Until there is room for
// it, the broker keeps it.
func (c *conn) fetch(r *request, most int, room roomFor) (answer []byte, version int16, err error) {
	if !r.id.none() {
		answer, err = c.exchange(r.byID(c.head(protocol.Fetch, fetchByID)), most, room)
		return answer, fetchByID, err
	}
	c.lastID++
	if err := protocol.WriteRequest(c.stream, c.version, c.lastID, c.clientID, r.byName()); err != nil {
		return nil, 0, err
	}
	answer, err = c.receive(most, room)
	return answer, c.version, err
}

// exchange sends a request that head has begun, and returns the answer as fetch does.
func (c *conn) exchange(packet []byte, most int, room roomFor) ([]byte, error) {
	binary.BigEndian.PutUint32(packet, uint32(len(packet)-4))
	if _, err := c.stream.Write(packet); err != nil {
		return nil, err
	}
	return c.receive(most, room)
}

func (c *conn) receive(most int, room roomFor) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.stream, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.lastID || size < 0 {
		return nil, errUnasked
	}
	kept := min(size, most)
	buffer, err := room(kept)
	if err != nil {
		return nil, err
	}
	if err := c.raw.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.stream, buffer); err != nil {
		return nil, err
	}
	_, err = io.CopyN(io.Discard, c.stream, int64(size-kept))
	return buffer, err
}

func (c *conn) close() { c.raw.Close() }
