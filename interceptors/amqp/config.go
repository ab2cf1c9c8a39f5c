package amqpsource

import (
	"cmp"
	"encoding/json"
	"net"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	amqp.ConnectionConfig
	Queues           []string         `json:"queues"`
	Exchanges        []exchangeConfig `json:"exchanges"`
	QueueArguments   map[string]any   `json:"queue_arguments"`
	RejectQueue      string           `json:"reject_queue"`
	RejectExchange   string           `json:"reject_exchange"`
	Properties       string           `json:"properties"`
	XDelayCompat     string           `json:"x_delay_compat"`
	RequireMessageID bool             `json:"require_message_id"`
	DropUserID       bool             `json:"drop_user_id"`
	Prefetch         *int             `json:"prefetch"`
	Batch            *int             `json:"batch"`
	ConfirmTimeout   string           `json:"confirm_timeout"`
}

// settings is the configuration as used.
type settings struct {
	cluster          amqp.Cluster
	queues           []string
	exchanges        []exchange
	queueArguments   map[string]any
	rejectQueue      string
	rejectExchange   string
	properties       string
	negate           bool // x-delay is passed on, negated
	requireMessageID bool
	dropUserID       bool
	prefetch         int
	batch            int
	confirmTimeout   time.Duration
}

// What becomes of a message's properties.
const (
	propertiesAMQP    = "amqp"
	propertiesHeaders = "headers"
	propertiesNone    = "none"
)

const (
	maxPrefetch     = 65535
	defaultPrefetch = 1000
	maxBatch        = 500
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field and shows no value,
// as URLs hold passwords.
func decode(raw json.RawMessage) (config, settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "an AMQP source"); err != nil {
		return c, settings{}, err
	}
	s, err := c.settings()
	return c, s, err
}

func (c *config) settings() (settings, error) {
	s := settings{queues: c.Queues, rejectQueue: c.RejectQueue, rejectExchange: c.RejectExchange,
		requireMessageID: c.RequireMessageID, dropUserID: c.DropUserID}
	for _, step := range []func(*settings) error{c.setCluster, c.checkSources, c.setArguments, c.checkReject, c.setProperties, c.setNumbers} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) setCluster(s *settings) (err error) {
	s.cluster, err = c.Load()
	s.cluster.Wrap = func(conn net.Conn) net.Conn { return newGuard(conn) }
	return err
}

func (c *config) setProperties(s *settings) error {
	switch s.properties = cmp.Or(c.Properties, propertiesAMQP); s.properties {
	case propertiesAMQP, propertiesHeaders, propertiesNone:
	default:
		return core.Invalidf("properties", "must be amqp, headers or none")
	}
	if s.properties != propertiesAMQP && len(c.Exchanges) > 0 {
		return core.Invalidf("properties", "must be amqp with exchanges, because only an AMQP sink can publish to one")
	}
	switch c.XDelayCompat {
	case "", "negate":
		s.negate = s.properties == propertiesAMQP
	case "remove":
	default:
		return core.Invalidf("x_delay_compat", "must be negate or remove")
	}
	return nil
}

func (c *config) checkReject(s *settings) error {
	switch {
	case s.rejectQueue != "" && s.rejectExchange != "":
		return core.Invalidf("reject_queue", "can't be used together with reject_exchange")
	case s.reads(s.rejectQueue):
		return core.Invalidf("reject_queue", "is read by this source: rejected messages would be read again")
	}
	for _, e := range s.exchanges {
		if s.rejectExchange == e.name {
			return core.Invalidf("reject_exchange", "is read by this source: rejected messages would be read again")
		}
	}
	if err := amqp.CheckShort("reject_queue", s.rejectQueue); err != nil {
		return err
	}
	return amqp.CheckShort("reject_exchange", s.rejectExchange)
}

func (c *config) setNumbers(s *settings) error {
	err := strict.Durations(strict.Duration{Field: "confirm_timeout", Text: c.ConfirmTimeout, Standard: 5 * time.Second,
		Min: amqp.MinTimeout, Max: amqp.MaxTimeout, To: &s.confirmTimeout})
	if err != nil {
		return err
	}
	return strict.Ints(
		strict.Int{Field: "prefetch", Given: c.Prefetch, Standard: defaultPrefetch, Min: 1, Max: maxPrefetch, To: &s.prefetch},
		strict.Int{Field: "batch", Given: c.Batch, Standard: maxBatch, Min: 1, Max: maxBatch, To: &s.batch},
	)
}
