package amqpsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	URLs             []string         `json:"urls"`
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
	DialTimeout      string           `json:"dial_timeout"`
	WriteTimeout     string           `json:"write_timeout"`
	ConfirmTimeout   string           `json:"confirm_timeout"`
	Heartbeat        string           `json:"heartbeat"`
	TLS              *tlsfiles.Config `json:"tls"`
}

// settings is the configuration as used.
type settings struct {
	nodes            []node
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
	dialTimeout      time.Duration
	writeTimeout     time.Duration
	confirmTimeout   time.Duration
	heartbeat        time.Duration
}

// What becomes of a message's properties.
const (
	propertiesAMQP    = "amqp"
	propertiesHeaders = "headers"
	propertiesNone    = "none"
)

const (
	maxShort        = 255 // bytes of a name
	maxPrefetch     = 65535
	defaultPrefetch = 1000
	maxBatch        = 500
	minTimeout      = 10 * time.Millisecond
	minHeartbeat    = time.Second
	maxTimeout      = 10 * time.Minute
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field and shows no value,
// as URLs hold passwords.
func decode(raw json.RawMessage) (config, settings, error) {
	var c config
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, settings{}, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return c, settings{}, core.Invalidf("config", "has something after its end")
	}
	s, err := c.settings()
	return c, s, err
}

// explain turns an error of encoding/json into one that names the field.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := strings.TrimPrefix(wrong.Field, "Config.")
		return core.Invalidf(cmp.Or(field, "config"), "can't be a %s", strings.Fields(wrong.Value)[0])
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if field, quoteErr := strconv.Unquote(name); quoteErr == nil {
			return core.Invalidf(core.Shorten(field, 64), "is not a setting of an AMQP source")
		}
	}
	return core.Invalidf("config", "is not a JSON object")
}

func (c *config) settings() (settings, error) {
	s := settings{queues: c.Queues, rejectQueue: c.RejectQueue, rejectExchange: c.RejectExchange,
		requireMessageID: c.RequireMessageID, dropUserID: c.DropUserID}
	for _, step := range []func(*settings) error{c.setNodes, c.checkSources, c.setArguments, c.checkReject, c.setProperties, c.setNumbers, c.setTimes} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) setProperties(s *settings) error {
	switch s.properties = cmp.Or(c.Properties, propertiesAMQP); s.properties {
	case propertiesAMQP, propertiesHeaders, propertiesNone:
	default:
		return core.Invalidf("properties", "must be amqp, headers or none")
	}
	if s.properties != propertiesAMQP && len(c.Exchanges) > 0 {
		return core.Invalidf("properties", "must be amqp with exchanges, as only an AMQP sink can publish to one")
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
		return core.Invalidf("reject_queue", "is read by this source, so that rejected messages would come back")
	}
	for _, e := range s.exchanges {
		if s.rejectExchange == e.name {
			return core.Invalidf("reject_exchange", "is read by this source, so that rejected messages would come back")
		}
	}
	if err := checkShort("reject_queue", s.rejectQueue); err != nil {
		return err
	}
	return checkShort("reject_exchange", s.rejectExchange)
}

func (c *config) setNumbers(s *settings) error {
	for _, n := range []struct {
		field         string
		written       *int
		standard, max int
		to            *int
	}{
		{"prefetch", c.Prefetch, defaultPrefetch, maxPrefetch, &s.prefetch},
		{"batch", c.Batch, maxBatch, maxBatch, &s.batch},
	} {
		*n.to = n.standard
		if n.written != nil {
			*n.to = *n.written
		}
		if *n.to < 1 || *n.to > n.max {
			return core.Invalidf(n.field, "must be 1 to %d", n.max)
		}
	}
	return nil
}

func (c *config) setTimes(s *settings) error {
	for _, t := range []struct {
		field, written string
		standard, min  time.Duration
		to             *time.Duration
	}{
		{"dial_timeout", c.DialTimeout, 3 * time.Second, minTimeout, &s.dialTimeout},
		{"write_timeout", c.WriteTimeout, 3 * time.Second, minTimeout, &s.writeTimeout},
		{"confirm_timeout", c.ConfirmTimeout, 5 * time.Second, minTimeout, &s.confirmTimeout},
		{"heartbeat", c.Heartbeat, 10 * time.Second, minHeartbeat, &s.heartbeat},
	} {
		*t.to = t.standard
		if t.written == "" {
			continue
		}
		d, err := core.ParseDuration(t.written)
		if err != nil {
			return core.Invalidf(t.field, "%v", err)
		}
		if d < t.min || d > maxTimeout {
			return core.Invalidf(t.field, "must be %s to %s", t.min, maxTimeout)
		}
		*t.to = d
	}
	return nil
}
