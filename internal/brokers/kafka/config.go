// Package kafkaconn connects to Apache Kafka 1.0 or newer: it has the settings that
// say how a cluster is reached, and makes connections with TLS and a login. The Kafka
// sink and the Kafka source use it. It decodes with kafka-go, whose own connections
// don't give access to the stream.
package kafkaconn

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/settings"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// ConnectionConfig has the settings of a connection, embedded in those of the source
// and the sink. The documentation of the sink describes them.
type ConnectionConfig struct {
	Brokers        []string         `json:"brokers"` // host:port of one or more brokers to start with
	ClientID       string           `json:"client_id"`
	TLS            *tlsfiles.Config `json:"tls"`  // nil: plain text
	SASL           *SASL            `json:"sasl"` // nil: no login
	DialTimeout    string           `json:"dial_timeout"`
	RequestTimeout string           `json:"request_timeout"`
}

// SASL are the settings of a login.
type SASL struct {
	Mechanism string `json:"mechanism"` // plain, scram-sha-256 or scram-sha-512
	Username  string `json:"username"`
	Password  string `json:"password"`
}

// MinTimeout and MaxTimeout bound all timeouts.
const (
	MinTimeout = 10 * time.Millisecond
	MaxTimeout = 10 * time.Minute
)

const maxClientIDLen = 255

// Load checks the settings and reads the files that they name. Every error is a
// *core.InvalidError that names the field and shows no secret.
func (c *ConnectionConfig) Load() (Dialer, error) {
	d := Dialer{Seeds: c.Brokers, ClientID: cmp.Or(c.ClientID, "delaybridge"), DialContext: (&net.Dialer{}).DialContext}
	if err := checkBrokers(d.Seeds); err != nil {
		return Dialer{}, err
	}
	if len(d.ClientID) > maxClientIDLen {
		return Dialer{}, core.Invalidf("client_id", "is longer than %d bytes", maxClientIDLen)
	}
	err := settings.Durations(
		settings.Duration{Field: "dial_timeout", Text: c.DialTimeout, Standard: 3 * time.Second, Min: MinTimeout, Max: MaxTimeout, To: &d.DialTimeout},
		settings.Duration{Field: "request_timeout", Text: c.RequestTimeout, Standard: 5 * time.Second, Min: MinTimeout, Max: MaxTimeout, To: &d.RequestTimeout},
	)
	if err == nil && c.TLS != nil {
		d.TLS, err = c.TLS.Load()
	}
	if err == nil && c.SASL != nil {
		d.SASL, err = c.SASL.mechanism()
	}
	return d, err
}

func checkBrokers(addresses []string) error {
	if len(addresses) == 0 {
		return core.Invalidf("brokers", "is missing: give the host:port of at least one broker")
	}
	for n, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || numberErr != nil || number == 0 {
			return core.Invalidf(fmt.Sprintf("brokers[%d]", n), "is not host:port")
		}
	}
	return nil
}

func (s *SASL) mechanism() (made sasl.Mechanism, err error) {
	if s.Username == "" {
		return nil, core.Invalidf("sasl.username", "is missing")
	}
	if s.Password == "" {
		return nil, core.Invalidf("sasl.password", "is missing")
	}
	switch strings.ToLower(s.Mechanism) {
	case "plain":
		made = plain.Mechanism{Username: s.Username, Password: s.Password}
	case "scram-sha-256":
		made, err = scram.Mechanism(scram.SHA256, s.Username, s.Password)
	case "scram-sha-512":
		made, err = scram.Mechanism(scram.SHA512, s.Username, s.Password)
	default:
		return nil, core.Invalidf("sasl.mechanism", "must be plain, scram-sha-256 or scram-sha-512")
	}
	if err != nil { // its text may hold what was typed
		return nil, core.Invalidf("sasl", "has a username or password with characters that SCRAM can't carry")
	}
	return made, nil
}

const (
	maxTopicLen = 249
	topicChars  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// CheckTopic returns a *core.InvalidError of that field if name can't be the name of a
// Kafka topic.
func CheckTopic(field, topic string) error {
	switch {
	case topic == "" || len(topic) > maxTopicLen:
		return core.Invalidf(field, "must have 1 to %d characters, as the name of a Kafka topic", maxTopicLen)
	case strings.Trim(topic, topicChars) != "" || topic == "." || topic == "..":
		return core.Invalidf(field, "may hold A-Z a-z 0-9 . _ - only, as the name of a Kafka topic")
	}
	return nil
}
