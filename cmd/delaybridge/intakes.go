package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	amqpdoor "github.com/delaybridge/delaybridge/interceptors/amqp"
	httpdoor "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/interceptors/intake"
	kafkadoor "github.com/delaybridge/delaybridge/interceptors/kafka"
	rocketmqdoor "github.com/delaybridge/delaybridge/interceptors/rocketmq"
)

type newReader func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (intake.Reader, error)

// intakeTypes are the ways in that a configuration can name, beside those that
// listen.
func intakeTypes() map[string]newReader {
	return map[string]newReader{
		"kafka": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (intake.Reader, error) {
			return kafkadoor.New(name, config, in, log)
		},
		"rocketmq": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (intake.Reader, error) {
			return rocketmqdoor.New(name, config, in, log)
		},
		"amqp": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (intake.Reader, error) {
			return amqpdoor.New(name, config, in, log)
		},
	}
}

// newIntakes makes the intakes of c, by name, which read nothing before they run.
// On error, which has every fault, there are none.
func newIntakes(c *config.Config, in *core.Interceptor, log *slog.Logger) ([]*intake.Supervisor, error) {
	types, made := intakeTypes(), make([]*intake.Supervisor, 0, len(c.Intakes))
	var faults config.Faults
	for _, i := range c.Intakes {
		r, err := types[i.Type](i.Name, i.Config, in, log)
		if err != nil {
			more, _ := errors.AsType[config.Faults](c.Fault("intakes."+i.Name+".config", err))
			faults = append(faults, more...)
			continue
		}
		made = append(made, &intake.Supervisor{Reader: r, Name: i.Name, Log: log})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	slices.SortFunc(made, func(a, b *intake.Supervisor) int { return strings.Compare(a.Name, b.Name) })
	return made, nil
}

// reportOn returns what the HTTP listener tells of sources.
func reportOn(sources []*intake.Supervisor) func() []httpdoor.IntakeReport {
	return func() (reports []httpdoor.IntakeReport) {
		for _, s := range sources {
			r := s.Report()
			reports = append(reports, httpdoor.IntakeReport{Intake: s.Name, Parked: r.Parked, Duplicates: r.Duplicates,
				Rejected: r.Rejected, Skipped: r.Skipped, Retried: r.Retried, Lag: r.Lag,
				Trouble: r.Trouble, Since: r.Since, Stopped: r.Stopped})
		}
		return reports
	}
}
