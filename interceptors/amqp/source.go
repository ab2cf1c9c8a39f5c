package amqpsource

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// Source reads messages from RabbitMQ queues. Create it with New; Run is the Run of its
// core.Input.
type Source struct {
	name     string
	settings settings
	sources  []*queueReader
	rejecter *rejecter // nil: there is no place for what is refused
	parker   *source.Parker
	log      *slog.Logger
}

// New returns a Source with this name and configuration in JSON; see the package
// documentation. The name is part of the messages' IDs: instances that read the same
// queues must have the same name. New opens no connection. It returns a
// *core.InvalidError if the configuration is invalid. A nil log discards.
func New(name string, raw json.RawMessage, in *core.Interceptor, log *slog.Logger) (*Source, error) {
	if err := core.CheckSinkName(name); err != nil {
		return nil, core.Invalidf("name", "%s", err.Reason)
	}
	c, s, err := decode(raw)
	if err != nil {
		return nil, err
	}
	target := "reject_queue"
	if s.rejectExchange != "" {
		target = "reject_exchange"
	}
	skip, err := c.Skips(target, s.rejectQueue+s.rejectExchange != "")
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i := &Source{name: name, settings: s, log: log, parker: &source.Parker{In: in, Name: name, Log: log, Skip: skip}}
	if s.rejectQueue != "" || s.rejectExchange != "" {
		i.rejecter = &rejecter{settings: &i.settings, dialer: i.settings.cluster.Dialer()}
	}
	if err := i.addQueues(c.Config, in); err != nil {
		return nil, err
	}
	if err := i.addExchanges(c.Config, in); err != nil {
		return nil, err
	}
	return i, nil
}

func dialects() []string { return []string{"native", "rabbitmq", "amqp1", "cloudevents"} }

func (i *Source) addQueues(c source.Config, in *core.Interceptor) error {
	if len(i.settings.queues) == 0 {
		return checkNoQueues(c)
	}
	rules, err := source.NewRules(c, in, dialects(), i.settings.queues...)
	if err != nil {
		return err
	}
	for _, queue := range i.settings.queues {
		i.sources = append(i.sources, i.newQueueReader(queue, nil, rules))
	}
	return nil
}

// checkNoQueues refuses what would have no effect.
func checkNoQueues(c source.Config) error {
	switch {
	case c.Topic != "":
		return core.Invalidf("topic", "applies to queues only: messages from exchanges keep their routing key")
	case c.TrimSuffix != "":
		return core.Invalidf("trim_suffix", "applies to queues only: messages from exchanges keep their routing key")
	}
	return nil
}

func (i *Source) addExchanges(c source.Config, in *core.Interceptor) error {
	if len(i.settings.exchanges) == 0 {
		return nil
	}
	c.Topic, c.TrimSuffix = "{topic}", ""               // these are about queues
	c.Untagged = cmp.Or(c.Untagged, source.UntaggedNow) // as the plugin has it
	rules, err := source.NewRules(c, in, dialects())
	if err != nil {
		return err
	}
	for n := range i.settings.exchanges {
		e := &i.settings.exchanges[n]
		i.sources = append(i.sources, i.newQueueReader(e.queue, e, rules))
	}
	return nil
}

// Run reads until ctx ends, then waits for messages being parked and acknowledges them;
// the broker keeps the rest. While the broker or the store can't be reached, it
// retries. It returns a *source.RefusedError for a message that can't be parked if
// on_bad_record is stop. Run may be called again after it has returned.
func (i *Source) Run(ctx context.Context) error {
	defer i.parker.Flush()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var group sync.WaitGroup
	errs := make([]error, len(i.sources))
	for n, s := range i.sources {
		group.Go(func() {
			if errs[n] = s.run(ctx); errs[n] != nil {
				end(errs[n])
			}
		})
	}
	group.Wait()
	if i.rejecter != nil {
		i.rejecter.close()
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Diagnose implements core.Diagnoser; topics are queues. What the source declares by itself
// need not exist.
func (i *Source) Diagnose(ctx context.Context, topics []string) []core.Finding {
	read, exchanges := slices.Clone(i.settings.queues), []string(nil)
	for _, e := range i.settings.exchanges {
		if !e.declare {
			read, exchanges = append(read, e.queue), append(exchanges, e.name)
		}
	}
	if i.settings.rejectQueue != "" {
		topics = append(slices.Clone(topics), i.settings.rejectQueue)
	}
	if i.settings.rejectExchange != "" {
		exchanges = append(exchanges, i.settings.rejectExchange)
	}
	return i.settings.cluster.Diagnose(ctx, read, topics, exchanges)
}

// Report returns the counts so far. Lag is the number of ready messages in the queues,
// at most some seconds old; -1 if it is unknown.
func (i *Source) Report() core.SourceReport {
	r := i.parker.Report()
	for _, s := range i.sources {
		if n := s.waiting.Load(); n >= 0 {
			r.Lag = max(r.Lag, 0) + n
		}
	}
	return r
}
