package rocketmqsource

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// Source takes messages from RocketMQ topics. Make it with New; Run is its
// core.Input.
type Source struct {
	name     string
	settings settings
	rules    *source.Rules
	waited   *source.Rules // for messages that the broker itself has held back
	parker   *source.Parker
	log      *slog.Logger
	assigned source.Assigned[*queue]
}

// dialects are those of a source whose settings name none.
func dialects() []string { return []string{"native", "rocketmq"} }

// New makes a Source of that name from its configuration in JSON, see the
// package documentation. The name is part of the messages' IDs: instances that
// share the work have the same. Nothing is dialled. A fault in the configuration
// is a *core.InvalidError. A nil log discards.
func New(name string, raw json.RawMessage, in *core.Interceptor, log *slog.Logger) (*Source, error) {
	if err := core.CheckSinkName(name); err != nil {
		return nil, core.Invalidf("name", "%s", err.Reason)
	}
	c, s, err := decode(raw)
	if err != nil {
		return nil, err
	}
	skip, err := c.Skips("reject_topic", s.rejectTopic != "")
	if err != nil {
		return nil, err
	}
	rules, err := source.NewRules(c.Config, in, dialects(), s.topics...)
	if err != nil {
		return nil, err
	}
	waited := rules
	if rules.Knows("DELAY") {
		at := c.Config
		at.Untagged, at.DefaultDelay = source.UntaggedNow, ""
		if waited, err = source.NewRules(at, in, dialects(), s.topics...); err != nil {
			return nil, err
		}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{name: name, settings: s, rules: rules, waited: waited, log: log,
		parker: &source.Parker{In: in, Name: name, Log: log, Skip: skip}}, nil
}

// Run reads until ctx ends, then lets what is being parked finish, commits and
// leaves the group. While RocketMQ or the store can't be reached it retries.
// Its error is a *source.RefusedError, or names a message that it can't read:
// then going on would lose it. It may be run again when it has returned.
func (i *Source) Run(ctx context.Context) error {
	defer i.parker.Flush()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	m := newMember(i, end)
	defer m.pool.close()
	committing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var commits sync.WaitGroup
	commits.Go(func() { m.commit(committing) })
	m.run(ctx)
	stop()
	commits.Wait()
	m.leave()
	return m.fatal()
}

// Diagnose implements core.Diagnoser.
func (i *Source) Diagnose(ctx context.Context, topics []string) []core.Finding {
	topics = slices.Concat(i.settings.topics, topics)
	if i.settings.rejectTopic != "" {
		topics = append(topics, i.settings.rejectTopic)
	}
	return i.settings.cluster.Diagnose(ctx, topics)
}

// Report returns what has been done so far. Lag counts the messages beyond what
// is parked in the queues that this instance reads; -1 if it reads none.
func (i *Source) Report() core.SourceReport {
	r := i.parker.Report()
	i.assigned.Report(&r)
	return r
}
