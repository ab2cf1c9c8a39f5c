package kafkasource

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, settings{}, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return c, settings{}, core.Invalidf("config", "has more than one JSON object")
	}
	s, err := c.settings()
	return c, s, err
}

// explain turns an error of encoding/json into one that names the field and
// shows no value, as that may be a secret.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := strings.TrimPrefix(wrong.Field, "Config.")
		return core.Invalidf(cmp.Or(field, "config"), "must be a %s", kindNames[wrong.Type.Kind().String()])
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if field, quoteErr := strconv.Unquote(name); quoteErr == nil {
			return core.Invalidf(core.Shorten(field, 64), "is not a setting of a Kafka source")
		}
	}
	return core.Invalidf("config", "is not a JSON object")
}

var kindNames = map[string]string{
	"string": "string", "int": "whole number", "bool": "boolean", "slice": "list", "struct": "group of settings", "ptr": "group of settings",
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
	for _, size := range []struct {
		field                  string
		given                  *int
		standard, lowest, most int
		to                     *int
	}{
		{"batch", c.Batch, maxBatch, 1, maxBatch, &s.batch},
		{"fetch_bytes", c.FetchBytes, 1 << 20, minBytes, maxFetchBytes, &s.fetchBytes},
		{"max_batch_bytes", c.MaxBatchBytes, 64 << 20, minBytes, maxBatchBytes, &s.maxBatchBytes},
		{"buffer_bytes", c.BufferBytes, 128 << 20, minBytes, maxBufferBytes, &s.bufferBytes},
	} {
		*size.to = size.standard
		if size.given != nil {
			*size.to = *size.given
		}
		if *size.to < size.lowest || *size.to > size.most {
			return core.Invalidf(size.field, "must be %d to %d", size.lowest, size.most)
		}
	}
	return nil
}

func (c *config) setTimes(s *settings) error {
	for _, t := range []struct {
		field, text      string
		standard, lowest time.Duration
		to               *time.Duration
	}{
		{"session_timeout", c.SessionTimeout, 10 * time.Second, minSession, &s.sessionTimeout},
		{"dial_timeout", c.DialTimeout, 3 * time.Second, minTimeout, &s.dialTimeout},
		{"request_timeout", c.RequestTimeout, 5 * time.Second, minTimeout, &s.requestTimeout},
	} {
		*t.to = t.standard
		if t.text == "" {
			continue
		}
		d, err := time.ParseDuration(t.text)
		if err != nil {
			return core.Invalidf(t.field, "is not a duration such as 5s")
		}
		if d < t.lowest || d > maxTimeout {
			return core.Invalidf(t.field, "must be %s to %s", t.lowest, maxTimeout)
		}
		*t.to = d
	}
	return nil
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
