package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	amqpdoor "github.com/delaybridge/delaybridge/interceptors/amqp"
	httpdoor "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/interceptors/intake"
	kafkadoor "github.com/delaybridge/delaybridge/interceptors/kafka"
	rocketmqdoor "github.com/delaybridge/delaybridge/interceptors/rocketmq"
)

// reader is a way in that reads from a broker.
type reader interface {
	Run(ctx context.Context) error
	Report() intake.Report
}

type newReader func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (reader, error)

// intakeTypes are the ways in that a configuration can name, beside those that
// listen.
func intakeTypes() map[string]newReader {
	return map[string]newReader{
		"kafka": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (reader, error) {
			return kafkadoor.New(name, config, in, log)
		},
		"rocketmq": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (reader, error) {
			return rocketmqdoor.New(name, config, in, log)
		},
		"amqp": func(name string, config json.RawMessage, in *core.Interceptor, log *slog.Logger) (reader, error) {
			return amqpdoor.New(name, config, in, log)
		},
	}
}

// newIntakes makes the intakes of c, which read nothing before they run. On
// error, which has every fault, there are none.
func newIntakes(c *config.Config, in *core.Interceptor, log *slog.Logger) (map[string]reader, error) {
	types, made := intakeTypes(), make(map[string]reader, len(c.Intakes))
	var faults config.Faults
	for _, i := range c.Intakes {
		r, err := types[i.Type](i.Name, i.Config, in, log)
		if err != nil {
			more, _ := errors.AsType[config.Faults](c.Fault("intakes."+i.Name+".config", err))
			faults = append(faults, more...)
			continue
		}
		made[i.Name] = r
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return made, nil
}

// intakeDoors makes doors of intakes, which say who they are when they fail.
func intakeDoors(intakes map[string]reader) (doors []core.Door) {
	for name, r := range intakes {
		doors = append(doors, func(ctx context.Context) error {
			if err := r.Run(ctx); err != nil {
				return fmt.Errorf("intake %s: %w", name, err)
			}
			return nil
		})
	}
	return doors
}

// reportOn returns what the stats of the HTTP door tell of intakes.
func reportOn(intakes map[string]reader) func() []httpdoor.IntakeReport {
	return func() (reports []httpdoor.IntakeReport) {
		for _, name := range slices.Sorted(maps.Keys(intakes)) {
			r := intakes[name].Report()
			reports = append(reports, httpdoor.IntakeReport{Intake: name, Parked: r.Parked, Duplicates: r.Duplicates,
				Rejected: r.Rejected, Retried: r.Retried, Lag: r.Lag})
		}
		return reports
	}
}
