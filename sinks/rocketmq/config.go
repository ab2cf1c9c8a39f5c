package rocketmq

import (
	"encoding/json"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	rocketmq.ConnectionConfig
	SendTimeout     string `json:"send_timeout"`
	Workers         *int   `json:"workers"`
	MaxBatchBytes   *int   `json:"max_batch_bytes"`
	MaxMessageBytes *int   `json:"max_message_bytes"`
	FlushTimeouts   string `json:"flush_timeouts"`
}

// settings is the configuration as used.
type settings struct {
	cluster         rocketmq.Cluster
	workers         int
	maxBatchBytes   int
	maxMessageBytes int
	flushAccepted   bool // that a message was not flushed or replicated in time is no failure
}

const (
	maxSendTimeout    = 3 * time.Second // fixed in the client library
	minSendTimeout    = 100 * time.Millisecond
	defaultWorkers    = 4
	maxWorkers        = 64
	defaultBatchBytes = 1 << 20
	defaultMaxMessage = 4 << 20
	minMessageBytes   = 64 << 10
	maxMessageBytes   = 12 << 20 // a broker drops the connection at 16 MiB
)

// decode reads the configuration and checks everything that needs no broker. Every error
// is a *core.InvalidError that names the field and shows no value, as that may be secret.
func decode(raw json.RawMessage) (settings, error) {
	var c config
	var s settings
	err := strict.Decode(raw, &c, "a RocketMQ sink")
	if err != nil {
		return s, err
	}
	if s.cluster, err = c.Load(); err != nil {
		return s, err
	}
	switch c.FlushTimeouts {
	case "", "retry":
	case "accept":
		s.flushAccepted = true
	default:
		return s, core.Invalidf("flush_timeouts", "must be retry or accept")
	}
	return s, c.setNumbers(&s)
}

func (c *config) setNumbers(s *settings) error {
	err := strict.Durations(strict.Duration{Field: "send_timeout", Text: c.SendTimeout, Standard: maxSendTimeout,
		Min: minSendTimeout, Max: maxSendTimeout, To: &s.cluster.Timeout})
	if err != nil {
		return err
	}
	err = strict.Ints(
		strict.Int{Field: "workers", Given: c.Workers, Standard: defaultWorkers, Min: 1, Max: maxWorkers, To: &s.workers},
		strict.Int{Field: "max_message_bytes", Given: c.MaxMessageBytes, Standard: defaultMaxMessage, Min: minMessageBytes, Max: maxMessageBytes, To: &s.maxMessageBytes},
	)
	if err != nil {
		return err
	}
	largest := s.maxMessageBytes - 1
	return strict.Ints(strict.Int{Field: "max_batch_bytes", Given: c.MaxBatchBytes, Standard: min(defaultBatchBytes, largest), Min: 1, Max: largest, To: &s.maxBatchBytes})
}
