package rocketmqsource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	rocketmq.ConnectionConfig
	Topics         []string `json:"topics"`
	Tags           []string `json:"tags"`
	Start          string   `json:"start"`
	RejectTopic    string   `json:"reject_topic"`
	Properties     string   `json:"properties"`
	Batch          *int     `json:"batch"`
	RequestTimeout string   `json:"request_timeout"`
}

// settings is the configuration as used.
type settings struct {
	cluster     rocketmq.Cluster
	topics      []string
	tags        []string // empty: all
	group       string   // on the wire
	latest      bool     // where to start
	rejectTopic string
	asHeaders   bool // keys and tags become headers rather than options
	batch       int
}

const (
	maxBatch        = 500
	maxTags         = 64
	maxTagLen       = 255
	minTimeout      = 100 * time.Millisecond
	maxTimeout      = time.Minute
	standardTimeout = 3 * time.Second
)

// decode reads the configuration and checks everything that needs no broker.
// Every error is a *core.InvalidError that names the field.
func decode(raw json.RawMessage) (config, settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "a RocketMQ source"); err != nil {
		return c, settings{}, err
	}
	s, err := c.settings()
	return c, s, err
}

func (c *config) settings() (settings, error) {
	cluster, err := c.Load()
	if err != nil {
		return settings{}, err
	}
	s := settings{cluster: cluster, topics: c.Topics, tags: c.Tags, group: cluster.OnWire(cluster.Group), rejectTopic: c.RejectTopic}
	for _, step := range []func(*settings) error{c.checkTopics, c.checkTags, c.setChoices, c.setNumbers} {
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
		if err := s.checkTopic(field, topic); err != nil {
			return err
		}
		if slices.Contains(s.topics[:n], topic) {
			return core.Invalidf(field, "appears twice")
		}
	}
	switch {
	case s.rejectTopic == "":
		return nil
	case slices.Contains(s.topics, s.rejectTopic):
		return core.Invalidf("reject_topic", "is one of topics: rejected messages would be read again")
	case strings.Contains(s.rejectTopic, "%RETRY%") || strings.Contains(s.rejectTopic, "%DLQ%"):
		return core.Invalidf("reject_topic", "belongs to a consumer group")
	}
	return s.checkTopic("reject_topic", s.rejectTopic)
}

func (s *settings) checkTopic(field, topic string) error {
	if topic == "SCHEDULE_TOPIC_XXXX" || strings.HasPrefix(strings.ToLower(topic), "rmq_sys_") {
		return core.Invalidf(field, "is reserved by RocketMQ")
	}
	return s.cluster.CheckTopic(field, topic)
}

func (c *config) checkTags(s *settings) error {
	if len(s.tags) > maxTags {
		return core.Invalidf("tags", "may be %d at most", maxTags)
	}
	for n, tag := range s.tags {
		field := fmt.Sprintf("tags[%d]", n)
		switch {
		case tag == "" || tag == "*" || len(tag) > maxTagLen || strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.Contains(tag, "|"):
			return core.Invalidf(field, "must be one tag of printable ASCII without spaces and |; leave tags out to read all")
		case slices.Contains(s.tags[:n], tag):
			return core.Invalidf(field, "appears twice")
		}
	}
	return nil
}

func (c *config) setChoices(s *settings) error {
	switch c.Start {
	case "", "earliest":
	case "latest":
		s.latest = true
	default:
		return core.Invalidf("start", "must be earliest or latest")
	}
	switch c.Properties {
	case "", "options":
	case "headers":
		s.asHeaders = true
	default:
		return core.Invalidf("properties", "must be options or headers")
	}
	return nil
}

func (c *config) setNumbers(s *settings) error {
	err := strict.Durations(strict.Duration{Field: "request_timeout", Text: c.RequestTimeout, Standard: standardTimeout,
		Min: minTimeout, Max: maxTimeout, To: &s.cluster.Timeout})
	if err != nil {
		return err
	}
	return strict.Ints(strict.Int{Field: "batch", Given: c.Batch, Standard: maxBatch, Min: 1, Max: maxBatch, To: &s.batch})
}
