package kafkasource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	kafkaconn.ConnectionConfig
	Topics         []string `json:"topics"`
	Group          string   `json:"group"`
	Start          string   `json:"start"`
	RejectTopic    string   `json:"reject_topic"`
	Batch          *int     `json:"batch"`
	FetchBytes     *int     `json:"fetch_bytes"`
	MaxBatchBytes  *int     `json:"max_batch_bytes"`
	BufferBytes    *int     `json:"buffer_bytes"`
	SessionTimeout string   `json:"session_timeout"`
}

// settings is the configuration as used.
type settings struct {
	kafkaconn.Dialer
	topics         []string
	group          string
	start          int64 // kafka.FirstOffset or kafka.LastOffset
	rejectTopic    string
	batch          int
	fetchBytes     int
	maxBatchBytes  int
	bufferBytes    int
	sessionTimeout time.Duration
	stopGrace      time.Duration
}

const (
	maxBatch       = 500
	minBytes       = 1 << 10
	maxFetchBytes  = 64 << 20
	maxBatchBytes  = 256 << 20
	maxBufferBytes = 1 << 30
	minSession     = time.Second
	maxGroupLen    = 255
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
	dialer, err := c.Load()
	if err != nil {
		return settings{}, err
	}
	s := settings{Dialer: dialer, topics: c.Topics, group: cmp.Or(c.Group, "delaybridge"), rejectTopic: c.RejectTopic, stopGrace: stopGrace}
	if len(s.group) > maxGroupLen {
		return settings{}, core.Invalidf("group", "is longer than %d bytes", maxGroupLen)
	}
	for _, step := range []func(*settings) error{c.checkTopics, c.setStart, c.setSizes, c.setTimes} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkTopics(s *settings) error {
	if len(s.topics) == 0 {
		return core.Invalidf("topics", "is missing: name at least one topic to read from")
	}
	for n, topic := range s.topics {
		field := fmt.Sprintf("topics[%d]", n)
		if err := kafkaconn.CheckTopic(field, topic); err != nil {
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
		return core.Invalidf("reject_topic", "is one of topics: rejected records would be read again")
	}
	return kafkaconn.CheckTopic("reject_topic", s.rejectTopic)
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
		strict.Duration{Field: "session_timeout", Text: c.SessionTimeout, Standard: 10 * time.Second, Min: minSession, Max: kafkaconn.MaxTimeout, To: &s.sessionTimeout})
}
