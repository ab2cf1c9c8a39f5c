package kafka

import (
	"encoding/json"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	kafkaconn.ConnectionConfig
	Acks            string `json:"acks"`
	Compression     string `json:"compression"`
	Partitioner     string `json:"partitioner"`
	MaxMessageBytes *int   `json:"max_message_bytes"`
	MetadataTTL     string `json:"metadata_ttl"`
	IdleTimeout     string `json:"idle_timeout"`
	MaxConnections  *int   `json:"max_connections"`
}

// settings is the configuration as used.
type settings struct {
	kafkaconn.Dialer
	compression   protocol.Attributes
	maxBatchBytes int // of one record batch, its head included
	metadataTTL   time.Duration
	idleTimeout   time.Duration
	connections   int // to one broker
}

const (
	defaultMaxMessageBytes = 1<<20 + 12 // Kafka's message.max.bytes
	minMaxMessageBytes     = 1 << 10
	maxMaxMessageBytes     = 64 << 20
	defaultConnections     = 4
	maxConnections         = 64
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field.
func decode(raw json.RawMessage) (settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "a Kafka sink"); err != nil {
		return settings{}, err
	}
	return c.settings()
}

func (c *config) settings() (s settings, err error) {
	if s.Dialer, err = c.Load(); err != nil {
		return settings{}, err
	}
	for _, step := range []func(*settings) error{c.checkNames, c.setSizes, c.setTimes, c.setCompression} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkNames(*settings) error {
	switch {
	case c.Acks != "" && c.Acks != "all":
		return core.Invalidf("acks", `must be "all"`)
	case c.Partitioner != "" && c.Partitioner != "murmur2":
		return core.Invalidf("partitioner", `must be "murmur2"`)
	}
	return nil
}

func (c *config) setSizes(s *settings) error {
	return strict.Ints(
		strict.Int{Field: "max_message_bytes", Given: c.MaxMessageBytes, Standard: defaultMaxMessageBytes, Min: minMaxMessageBytes, Max: maxMaxMessageBytes, To: &s.maxBatchBytes},
		strict.Int{Field: "max_connections", Given: c.MaxConnections, Standard: defaultConnections, Min: 1, Max: maxConnections, To: &s.connections},
	)
}

func (c *config) setTimes(s *settings) error {
	return strict.Durations(
		strict.Duration{Field: "metadata_ttl", Text: c.MetadataTTL, Standard: time.Second, Min: kafkaconn.MinTimeout, Max: kafkaconn.MaxTimeout, To: &s.metadataTTL},
		strict.Duration{Field: "idle_timeout", Text: c.IdleTimeout, Standard: 30 * time.Second, Min: kafkaconn.MinTimeout, Max: kafkaconn.MaxTimeout, To: &s.idleTimeout},
	)
}

func (c *config) setCompression(s *settings) error {
	for _, known := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		if c.Compression == known.String() {
			s.compression = protocol.Attributes(known)
			return nil
		}
	}
	if c.Compression != "" && c.Compression != "none" {
		return core.Invalidf("compression", "must be none, gzip, snappy, lz4 or zstd")
	}
	return nil
}
