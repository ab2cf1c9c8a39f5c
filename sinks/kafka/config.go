package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/delaybridge/delaybridge/core"
	strict "github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// config is the configuration as written; see the package documentation.
type config struct {
	Brokers         []string         `json:"brokers"`
	ClientID        string           `json:"client_id"`
	Acks            string           `json:"acks"`
	Compression     string           `json:"compression"`
	Partitioner     string           `json:"partitioner"`
	TLS             *tlsfiles.Config `json:"tls"`
	SASL            *saslConfig      `json:"sasl"`
	MaxMessageBytes *int             `json:"max_message_bytes"`
	MetadataTTL     string           `json:"metadata_ttl"`
	DialTimeout     string           `json:"dial_timeout"`
	RequestTimeout  string           `json:"request_timeout"`
	IdleTimeout     string           `json:"idle_timeout"`
	MaxConnections  *int             `json:"max_connections"`
}

type saslConfig struct {
	Mechanism string `json:"mechanism"`
	Username  string `json:"username"`
	Password  string `json:"password"`
}

// settings is the configuration as used.
type settings struct {
	seeds          []string
	clientID       string
	compression    protocol.Attributes
	tls            *tls.Config    // nil: plain text
	sasl           sasl.Mechanism // nil: no login
	maxBatchBytes  int            // of one record batch, its head included
	metadataTTL    time.Duration
	dialTimeout    time.Duration
	requestTimeout time.Duration
	idleTimeout    time.Duration
	connections    int // to one broker
	dial           func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultMaxMessageBytes = 1<<20 + 12 // Kafka's message.max.bytes
	minMaxMessageBytes     = 1 << 10
	maxMaxMessageBytes     = 64 << 20
	defaultConnections     = 4
	maxConnections         = 64
	minTimeout             = 10 * time.Millisecond
	maxTimeout             = 10 * time.Minute
	maxClientIDLen         = 255
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

func (c *config) settings() (settings, error) {
	s := settings{seeds: c.Brokers, clientID: cmp.Or(c.ClientID, "delaybridge"), dial: (&net.Dialer{}).DialContext}
	steps := []func(*settings) error{c.checkNames, c.setSizes, c.setTimes, c.setCompression, c.setTLS, c.setSASL}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkNames(s *settings) error {
	if len(s.seeds) == 0 {
		return core.Invalidf("brokers", "is missing: give the host:port of at least one broker")
	}
	for n, address := range s.seeds {
		host, port, err := net.SplitHostPort(address)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || numberErr != nil || number == 0 {
			return core.Invalidf(fmt.Sprintf("brokers[%d]", n), "is not host:port")
		}
	}
	switch {
	case len(s.clientID) > maxClientIDLen:
		return core.Invalidf("client_id", "is longer than %d bytes", maxClientIDLen)
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
		strict.Duration{Field: "metadata_ttl", Text: c.MetadataTTL, Standard: time.Second, Min: minTimeout, Max: maxTimeout, To: &s.metadataTTL},
		strict.Duration{Field: "dial_timeout", Text: c.DialTimeout, Standard: 3 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.dialTimeout},
		strict.Duration{Field: "request_timeout", Text: c.RequestTimeout, Standard: 5 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.requestTimeout},
		strict.Duration{Field: "idle_timeout", Text: c.IdleTimeout, Standard: 30 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.idleTimeout},
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
