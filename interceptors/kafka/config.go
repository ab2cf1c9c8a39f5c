package kafkasource

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	strict "github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	Brokers        []string         `json:"brokers"`
	Topics         []string         `json:"topics"`
	Group          string           `json:"group"`
	Start          string           `json:"start"`
	RejectTopic    string           `json:"reject_topic"`
	Batch          *int             `json:"batch"`
	FetchBytes     *int             `json:"fetch_bytes"`
	MaxBatchBytes  *int             `json:"max_batch_bytes"`
	BufferBytes    *int             `json:"buffer_bytes"`
	ClientID       string           `json:"client_id"`
	TLS            *tlsfiles.Config `json:"tls"`
	SASL           *saslConfig      `json:"sasl"`
	SessionTimeout string           `json:"session_timeout"`
	DialTimeout    string           `json:"dial_timeout"`
	RequestTimeout string           `json:"request_timeout"`
}

type saslConfig struct {
	Mechanism string `json:"mechanism"`
	Username  string `json:"username"`
	Password  string `json:"password"`
}

// settings is the configuration as used.
type settings struct {
	brokers        []string
	topics         []string
	group          string
	start          int64 // kafka.FirstOffset or kafka.LastOffset
	rejectTopic    string
	batch          int
	fetchBytes     int
	maxBatchBytes  int
	bufferBytes    int
	clientID       string
	tls            *tls.Config    // nil: plain text
	sasl           sasl.Mechanism // nil: no login
	sessionTimeout time.Duration
	dialTimeout    time.Duration
	requestTimeout time.Duration
	stopGrace      time.Duration
	dial           dialFunc
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

const (
	maxBatch       = 500
	minBytes       = 1 << 10
	maxFetchBytes  = 64 << 20
	maxBatchBytes  = 256 << 20
	maxBufferBytes = 1 << 30
	minTimeout     = 10 * time.Millisecond
	maxTimeout     = 10 * time.Minute
	minSession     = time.Second
	maxNameLen     = 249 // of a topic
	maxGroupLen    = 255
	maxClientIDLen = 255
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field.
func decode(raw json.RawMessage) (config, settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "a Kafka source"); err != nil {
		return c, settings{}, err
	}
	s, err := c.settings()
	return c, s, err
}

func (c *config) settings() (settings, error) {
	s := settings{brokers: c.Brokers, topics: c.Topics, group: cmp.Or(c.Group, "delaybridge"), rejectTopic: c.RejectTopic,
		clientID: cmp.Or(c.ClientID, "delaybridge"), stopGrace: stopGrace, dial: (&net.Dialer{}).DialContext}
	for _, step := range []func(*settings) error{c.checkBrokers, c.checkTopics, c.setStart, c.setSizes, c.setTimes, c.setTLS, c.setSASL} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkBrokers(s *settings) error {
	if len(s.brokers) == 0 {
		return core.Invalidf("brokers", "is missing: give the host:port of at least one broker")
	}
	for n, address := range s.brokers {
		host, port, err := net.SplitHostPort(address)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || numberErr != nil || number == 0 {
			return core.Invalidf(fmt.Sprintf("brokers[%d]", n), "is not host:port")
		}
	}
	switch {
	case len(s.clientID) > maxClientIDLen:
		return core.Invalidf("client_id", "is longer than %d bytes", maxClientIDLen)
	case len(s.group) > maxGroupLen:
		return core.Invalidf("group", "is longer than %d bytes", maxGroupLen)
	}
	return nil
}

func (c *config) checkTopics(s *settings) error {
	if len(s.topics) == 0 {
		return core.Invalidf("topics", "is missing: name at least one topic to read from")
	}
	for n, topic := range s.topics {
		field := fmt.Sprintf("topics[%d]", n)
		if err := checkTopicName(field, topic); err != nil {
			return err
		}
		if slices.Contains(s.topics[:n], topic) {
			return core.Invalidf(field, "appears twice")
		}
	}
	if s.rejectTopic == "" {
		return nil
	}
	if slices.Contains(s.topics, s.rejectTopic) {
		return core.Invalidf("reject_topic", "is one of topics, so that rejected records would come back")
	}
	return checkTopicName("reject_topic", s.rejectTopic)
}

func checkTopicName(field, topic string) error {
	switch {
	case topic == "" || topic == "." || topic == "..":
		return core.Invalidf(field, "is not the name of a topic")
	case len(topic) > maxNameLen:
		return core.Invalidf(field, "is longer than %d bytes", maxNameLen)
	case strings.ContainsFunc(topic, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	}):
		return core.Invalidf(field, "may hold A-Z a-z 0-9 . _ - only")
	}
	return nil
}

func (c *config) setStart(s *settings) error {
	switch c.Start {
	case "", "earliest":
		s.start = kafka.FirstOffset
	case "latest":
		s.start = kafka.LastOffset
	default:
		return core.Invalidf("start", "must be earliest or latest")
	}
	return nil
}

func (c *config) setSizes(s *settings) error {
	return strict.Ints(
		strict.Int{Field: "batch", Given: c.Batch, Standard: maxBatch, Min: 1, Max: maxBatch, To: &s.batch},
		strict.Int{Field: "fetch_bytes", Given: c.FetchBytes, Standard: 1 << 20, Min: minBytes, Max: maxFetchBytes, To: &s.fetchBytes},
		strict.Int{Field: "max_batch_bytes", Given: c.MaxBatchBytes, Standard: 64 << 20, Min: minBytes, Max: maxBatchBytes, To: &s.maxBatchBytes},
		strict.Int{Field: "buffer_bytes", Given: c.BufferBytes, Standard: 128 << 20, Min: minBytes, Max: maxBufferBytes, To: &s.bufferBytes},
	)
}

func (c *config) setTimes(s *settings) error {
	return strict.Durations(
		strict.Duration{Field: "session_timeout", Text: c.SessionTimeout, Standard: 10 * time.Second, Min: minSession, Max: maxTimeout, To: &s.sessionTimeout},
		strict.Duration{Field: "dial_timeout", Text: c.DialTimeout, Standard: 3 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.dialTimeout},
		strict.Duration{Field: "request_timeout", Text: c.RequestTimeout, Standard: 5 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.requestTimeout},
	)
}

func (c *config) setSASL(s *settings) error {
	if c.SASL == nil {
		return nil
	}
	if c.SASL.Username == "" {
		return core.Invalidf("sasl.username", "is missing")
	}
	if c.SASL.Password == "" {
		return core.Invalidf("sasl.password", "is missing")
	}
	var err error
	switch strings.ToLower(c.SASL.Mechanism) {
	case "plain":
		s.sasl = plain.Mechanism{Username: c.SASL.Username, Password: c.SASL.Password}
	case "scram-sha-256":
		s.sasl, err = scram.Mechanism(scram.SHA256, c.SASL.Username, c.SASL.Password)
	case "scram-sha-512":
		s.sasl, err = scram.Mechanism(scram.SHA512, c.SASL.Username, c.SASL.Password)
	default:
		return core.Invalidf("sasl.mechanism", "must be plain, scram-sha-256 or scram-sha-512")
	}
	if err != nil { // its text may hold what was typed
		return core.Invalidf("sasl", "has a username or password with characters that SCRAM can't carry")
	}
	return nil
}

func (c *config) setTLS(s *settings) (err error) {
	if c.TLS != nil {
		s.tls, err = c.TLS.Load()
	}
	return err
}
