package kafkasource

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// Source reads messages from Kafka topics. Create it with New; Run is the Run of its
// core.Input.
type Source struct {
	name     string
	settings settings
	rules    *source.Rules
	parker   *source.Parker
	log      *slog.Logger

	unpacker, smallUnpacker *unpacker // the latter is for what takes little memory
	assigned                source.Assigned[*partition]
}

// New returns a Source with this name and configuration in JSON; see the package
// documentation. The name is part of the messages' IDs: instances of one group must
// have the same name. New opens no connection. It returns a *core.InvalidError if the
// configuration is invalid. A nil log discards.
func New(name string, raw json.RawMessage, in *core.Interceptor, log *slog.Logger) (*Source, error) {
	if err := core.CheckSinkName(name); err != nil {
		return nil, core.Invalidf("name", "%s", err.Reason)
	}
	c, s, err := decode(raw)
	if err != nil {
		return nil, err
	}
	dialects := []string{"native", "cloudevents", "etf1", "timebridge", "spring"}
	skip, err := c.Skips("reject_topic", s.rejectTopic != "")
	if err != nil {
		return nil, err
	}
	rules, err := source.NewRules(c.Config, in, dialects, s.topics...)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	unpacker, err := newUnpacker(s.maxBatchBytes)
	if err != nil {
		return nil, core.Invalidf("max_batch_bytes", "%s", err)
	}
	small, err := newUnpacker(min(s.maxBatchBytes, keptBytes))
	if err != nil {
		return nil, core.Invalidf("max_batch_bytes", "%s", err)
	}
	return &Source{name: name, settings: s, rules: rules, unpacker: unpacker, smallUnpacker: small, log: log,
		parker: &source.Parker{In: in, Name: name, Log: log, Skip: skip}}, nil
}

// Run reads until ctx ends, then waits for records being parked, commits and leaves the
// group. While Kafka or the store can't be reached, it retries; it waits for topics
// that do not exist yet. It returns a *source.RefusedError for a record that can't be
// parked if on_bad_record is stop, and another error for records that it can't read,
// instead of skipping them. Run may be called again after it has returned.
func (i *Source) Run(ctx context.Context) error {
	defer i.parker.Flush()
	transport := i.transport()
	defer transport.CloseIdleConnections()
	dial, release := i.settings.groupDial(ctx)
	defer release()
	client := &kafka.Client{Addr: kafka.TCP(i.settings.Seeds...), Transport: transport, Timeout: i.settings.RequestTimeout}
	return newMember(i, client, dial).run(ctx)
}

func (i *Source) transport() *kafka.Transport {
	s := &i.settings
	topics := append([]string{}, s.topics...)
	if s.rejectTopic != "" {
		topics = append(topics, s.rejectTopic)
	}
	return &kafka.Transport{Dial: s.DialContext, DialTimeout: s.DialTimeout, IdleTimeout: idleTimeout, MetadataTTL: metadataTTL,
		MetadataTopics: topics, ClientID: s.ClientID, TLS: s.TLS, SASL: s.SASL}
}

func (i *Source) groupConfig(dial dialFunc, brokers, topics []string, balancers []kafka.GroupBalancer) kafka.ConsumerGroupConfig {
	s := &i.settings
	quiet := kafka.LoggerFunc(func(format string, args ...any) {
		i.log.Debug("kafka-go", "source", i.name, "text", fmt.Sprintf(format, args...))
	})
	return kafka.ConsumerGroupConfig{
		ID: s.group, Brokers: brokers, Topics: topics, GroupBalancers: balancers, StartOffset: s.start,
		Dialer:         &kafka.Dialer{ClientID: s.ClientID, DialFunc: dial, Timeout: s.DialTimeout, TLS: s.TLS, SASLMechanism: s.SASL},
		SessionTimeout: s.sessionTimeout, HeartbeatInterval: s.sessionTimeout / 5, RebalanceTimeout: rebalanceTimeout,
		JoinGroupBackoff: joinBackoff, Timeout: s.RequestTimeout, ErrorLogger: quiet,
	}
}

const (
	metadataTTL      = time.Second
	idleTimeout      = 30 * time.Second
	rebalanceTimeout = 30 * time.Second
	joinBackoff      = time.Second
	maxWait          = time.Second // of a fetch that finds nothing
	// stopGrace is for what is being parked to finish, for the last commit, and
	// to leave the group.
	stopGrace = 12 * time.Second
)

// Diagnose implements core.Diagnoser.
func (i *Source) Diagnose(ctx context.Context, topics []string) []core.Finding {
	topics = slices.Concat(i.settings.topics, topics)
	if i.settings.rejectTopic != "" {
		topics = append(topics, i.settings.rejectTopic)
	}
	return i.settings.Diagnose(ctx, topics, i.settings.group)
}

// Report returns the counts so far. Lag is the number of records not yet parked in the
// partitions that this instance reads; -1 if it reads none.
func (i *Source) Report() core.SourceReport {
	r := i.parker.Report()
	i.assigned.Report(&r)
	return r
}
