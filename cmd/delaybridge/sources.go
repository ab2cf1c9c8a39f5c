package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	amqpsource "github.com/delaybridge/delaybridge/interceptors/amqp"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
	kafkasource "github.com/delaybridge/delaybridge/interceptors/kafka"
	rocketmqsource "github.com/delaybridge/delaybridge/interceptors/rocketmq"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

type newReader func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (source.Reader, error)

// sourceTypes are the ways in that a configuration can name, besides those that
// listen.
func sourceTypes() map[string]newReader {
	return map[string]newReader{
		"kafka": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (source.Reader, error) {
			return kafkasource.New(name, config, in, log)
		},
		"rocketmq": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (source.Reader, error) {
			return rocketmqsource.New(name, config, in, log)
		},
		"amqp": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (source.Reader, error) {
			return amqpsource.New(name, config, in, log)
		},
	}
}

// newSources makes the sources of c, by name, which read nothing before they run.
// On error, which has every fault, there are none.
func newSources(c *config.Config, in *core.Interceptor, log *slog.Logger) ([]*source.Supervisor, error) {
	types, made := sourceTypes(), make([]*source.Supervisor, 0, len(c.Sources))
	var faults config.Faults
	for _, i := range c.Sources {
		r, err := types[i.Type](i.Name, i.Config, in, log)
		if err != nil {
			more, _ := errors.AsType[config.Faults](c.Fault("sources."+i.Name+".config", err))
			faults = append(faults, more...)
			continue
		}
		made = append(made, &source.Supervisor{Reader: r, Name: i.Name, Log: log})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	slices.SortFunc(made, func(a, b *source.Supervisor) int { return strings.Compare(a.Name, b.Name) })
	return made, nil
}

// reportOn returns the states of the sources, for the HTTP listener.
func reportOn(sources []*source.Supervisor) func() []httplistener.SourceReport {
	return func() (reports []httplistener.SourceReport) {
		for _, s := range sources {
			r := s.Report()
			reports = append(reports, httplistener.SourceReport{Source: s.Name, Parked: r.Parked, Duplicates: r.Duplicates,
				Rejected: r.Rejected, Skipped: r.Skipped, Retried: r.Retried, Lag: r.Lag,
				Trouble: r.Trouble, Since: r.Since, Stopped: r.Stopped})
		}
		return reports
	}
}
