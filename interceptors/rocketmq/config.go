package rocketmqsource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration as written; see the package documentation.
type config struct {
	source.Config
	NameServers    []string `json:"name_servers"`
	Topics         []string `json:"topics"`
	Tags           []string `json:"tags"`
	Group          string   `json:"group"`
	Namespace      string   `json:"namespace"`
	AccessKey      string   `json:"access_key"`
	SecretKey      string   `json:"secret_key"`
	SecurityToken  string   `json:"security_token"`
	Start          string   `json:"start"`
	RejectTopic    string   `json:"reject_topic"`
	Properties     string   `json:"properties"`
	Batch          *int     `json:"batch"`
	RequestTimeout string   `json:"request_timeout"`
}

// settings is the configuration as used.
type settings struct {
	nameServers    []string
	topics         []string
	tags           []string // empty: all
	group          string   // on the wire
	namespace      string
	credentials    credentials
	latest         bool // where to start
	rejectTopic    string
	asHeaders      bool // keys and tags become headers rather than options
	batch          int
	requestTimeout time.Duration
	dial           dialFunc
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

const (
	maxBatch         = 500
	maxNameServers   = 16
	maxTopicLen      = 127
	maxGroupLen      = 255
	maxNamespaceLen  = 64
	maxCredentialLen = 1024
	maxTags          = 64
	maxTagLen        = 255
	minTimeout       = 100 * time.Millisecond
	maxTimeout       = time.Minute
	standardTimeout  = 3 * time.Second

	namespaceChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	nameChars      = namespaceChars + "|%"
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
	s := settings{nameServers: c.NameServers, topics: c.Topics, tags: c.Tags, namespace: c.Namespace, rejectTopic: c.RejectTopic,
		credentials: credentials{accessKey: c.AccessKey, secretKey: c.SecretKey, token: c.SecurityToken},
		dial:        (&net.Dialer{}).DialContext}
	for _, step := range []func(*settings) error{c.checkNameServers, c.setGroup, c.checkTopics, c.checkTags, c.checkCredentials, c.setChoices, c.setNumbers} {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkNameServers(s *settings) error {
	switch {
	case len(s.nameServers) == 0:
		return core.Invalidf("name_servers", "is missing: give at least one host:port")
	case len(s.nameServers) > maxNameServers:
		return core.Invalidf("name_servers", "may be %d at most", maxNameServers)
	}
	for n, address := range s.nameServers {
		host, port, err := net.SplitHostPort(address)
		number, numberErr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || strings.ContainsFunc(host, notPrintable) || strings.ContainsAny(host, "/;,@?#") || numberErr != nil || number == 0 {
			return core.Invalidf(fmt.Sprintf("name_servers[%d]", n), "is not host:port")
		}
	}
	return nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

func (c *config) setGroup(s *settings) error {
	s.group = s.onWire(cmp.Or(c.Group, "delaybridge"))
	switch {
	case !onlyOf(c.Namespace, namespaceChars) || len(c.Namespace) > maxNamespaceLen:
		return core.Invalidf("namespace", "may hold up to %d of A-Z a-z 0-9 _ - only", maxNamespaceLen)
	case !onlyOf(c.Group, nameChars) || len(s.group) > maxGroupLen:
		return core.Invalidf("group", "may hold up to %d of A-Z a-z 0-9 _ - | %% only, with the namespace", maxGroupLen)
	}
	return nil
}

// onWire is the name under which the cluster knows a topic or a group.
func (s *settings) onWire(name string) string {
	if s.namespace == "" {
		return name
	}
	return s.namespace + "%" + name
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
		return core.Invalidf("reject_topic", "is one of topics, so that rejected messages would come back")
	case strings.Contains(s.rejectTopic, "%RETRY%") || strings.Contains(s.rejectTopic, "%DLQ%"):
		return core.Invalidf("reject_topic", "belongs to a consumer group")
	}
	return s.checkTopic("reject_topic", s.rejectTopic)
}

func (s *settings) checkTopic(field, topic string) error {
	switch lower := strings.ToLower(topic); {
	case topic == "" || !onlyOf(topic, nameChars):
		return core.Invalidf(field, "must be a name of A-Z a-z 0-9 _ - | %%")
	case s.namespace != "" && strings.Contains(topic, "%"):
		return core.Invalidf(field, "must not hold %%, as there is a namespace")
	case len(s.onWire(topic)) > maxTopicLen:
		return core.Invalidf(field, "is longer than %d bytes, with the namespace", maxTopicLen)
	case topic == "SCHEDULE_TOPIC_XXXX" || strings.HasPrefix(lower, "rmq_sys_"):
		return core.Invalidf(field, "is reserved by RocketMQ")
	}
	return nil
}

func onlyOf(s, allowed string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
}

func (c *config) checkTags(s *settings) error {
	if len(s.tags) > maxTags {
		return core.Invalidf("tags", "may be %d at most", maxTags)
	}
	for n, tag := range s.tags {
		field := fmt.Sprintf("tags[%d]", n)
		switch {
		case tag == "" || tag == "*" || len(tag) > maxTagLen || strings.ContainsFunc(tag, notPrintable) || strings.Contains(tag, "|"):
			return core.Invalidf(field, "must be one tag of printable ASCII without spaces and |; leave tags out to read all")
		case slices.Contains(s.tags[:n], tag):
			return core.Invalidf(field, "appears twice")
		}
	}
	return nil
}

func (c *config) checkCredentials(*settings) error {
	for _, field := range []struct{ name, value string }{
		{"access_key", c.AccessKey}, {"secret_key", c.SecretKey}, {"security_token", c.SecurityToken},
	} {
		if len(field.value) > maxCredentialLen || strings.ContainsFunc(field.value, notPrintable) {
			return core.Invalidf(field.name, "may hold up to %d printable ASCII characters without spaces", maxCredentialLen)
		}
	}
	switch {
	case c.AccessKey == "" && c.SecretKey != "":
		return core.Invalidf("access_key", "is missing, as there is a secret_key")
	case c.AccessKey != "" && c.SecretKey == "":
		return core.Invalidf("secret_key", "is missing, as there is an access_key")
	case c.SecurityToken != "" && c.AccessKey == "":
		return core.Invalidf("security_token", "needs an access_key and a secret_key")
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
	s.batch, s.requestTimeout = maxBatch, standardTimeout
	if c.Batch != nil {
		s.batch = *c.Batch
	}
	if s.batch < 1 || s.batch > maxBatch {
		return core.Invalidf("batch", "must be 1 to %d", maxBatch)
	}
	if c.RequestTimeout == "" {
		return nil
	}
	d, err := time.ParseDuration(c.RequestTimeout)
	if err != nil {
		return core.Invalidf("request_timeout", "is not a duration such as 3s")
	}
	if d < minTimeout || d > maxTimeout {
		return core.Invalidf("request_timeout", "must be %s to %s", minTimeout, maxTimeout)
	}
	s.requestTimeout = d
	return nil
}
