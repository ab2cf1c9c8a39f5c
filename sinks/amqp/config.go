package amqp

import (
	"encoding/json"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	amqp.ConnectionConfig
	Exchange       string `json:"exchange"`
	Mandatory      *bool  `json:"mandatory"`
	Persistent     *bool  `json:"persistent"`
	Connections    *int   `json:"connections"`
	Channels       *int   `json:"channels"`
	MaxMessageSize *int   `json:"max_message_size"`
}

// settings is the configuration as used.
type settings struct {
	cluster        amqp.Cluster
	exchange       string
	mandatory      bool
	deliveryMode   uint8
	connections    int
	channels       int
	maxMessageSize int
}

const (
	defaultMaxMessageSize = 16 << 20
	maxMaxMessageSize     = 512 << 20
	defaultChannels       = 16
	maxConnections        = 64
	maxChannels           = 1024
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field and shows no value,
// as URLs hold passwords.
func decode(raw json.RawMessage) (settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "an AMQP sink"); err != nil {
		return settings{}, err
	}
	return c.settings()
}

func (c *config) settings() (settings, error) {
	s := settings{exchange: c.Exchange, mandatory: valueOr(c.Mandatory, true), deliveryMode: amqp091.Transient}
	if valueOr(c.Persistent, true) {
		s.deliveryMode = amqp091.Persistent
	}
	if err := amqp.CheckShort("exchange", c.Exchange); err != nil {
		return settings{}, err
	}
	if err := c.setNumbers(&s); err != nil {
		return settings{}, err
	}
	var err error
	s.cluster, err = c.Load()
	return s, err
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (c *config) setNumbers(s *settings) error {
	return strict.Ints(
		strict.Int{Field: "connections", Given: c.Connections, Standard: 1, Min: 1, Max: maxConnections, To: &s.connections},
		strict.Int{Field: "channels", Given: c.Channels, Standard: defaultChannels, Min: 1, Max: maxChannels, To: &s.channels},
		strict.Int{Field: "max_message_size", Given: c.MaxMessageSize, Standard: defaultMaxMessageSize, Min: 1, Max: maxMaxMessageSize, To: &s.maxMessageSize},
	)
}
