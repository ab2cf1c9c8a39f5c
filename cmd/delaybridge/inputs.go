package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	amqpsource "github.com/delaybridge/delaybridge/interceptors/amqp"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
	kafkasource "github.com/delaybridge/delaybridge/interceptors/kafka"
	rocketmqsource "github.com/delaybridge/delaybridge/interceptors/rocketmq"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// input is a way in that listens.
type input interface {
	Listen() (net.Addr, error)
	Run(ctx context.Context) error
}

// checkInputs returns what is wrong with the sections of the listeners and sources.
func checkInputs(c *config.Config, log *slog.Logger) config.Faults {
	in := core.NewBridge(nil, core.Options{Limits: c.Limits.Limits}).Interceptor
	_, err := httplistener.New(httpConfig(c, log), in)
	faults, _ := errors.AsType[config.Faults](c.Fault("http", err))
	if c.GRPC.Listen != "" {
		_, err := grpclistener.New(grpcConfig(c, log), in)
		more, _ := errors.AsType[config.Faults](c.Fault("grpc", err))
		faults = append(faults, more...)
	}
	return faults
}

// openInputs makes the listeners and sources that c wants and has those that listen do so. told is what there
// is to know about them, as a logger takes it. On error none listens.
func openInputs(c *config.Config, in *core.Interceptor, sources []*source.Supervisor, log *slog.Logger) (inputs []core.Input, told []any, err error) {
	made := []string{"http"}
	settings, reports := httpConfig(c, log), reportOn(sources)
	settings.Sources = reports
	http, err := httplistener.New(settings, in)
	all := []input{http}
	if err == nil && c.GRPC.Listen != "" {
		var grpc *grpclistener.Server
		settings := grpcConfig(c, log)
		settings.Sources = reports
		grpc, err = grpclistener.New(settings, in)
		made, all = append(made, "grpc"), append(all, grpc)
	}
	if err != nil {
		return nil, nil, coded(exitConfig, err)
	}
	for n, d := range all {
		addr, err := listen(d)
		if err != nil {
			return nil, nil, errors.Join(err, closeInputs(inputs))
		}
		inputs, told = append(inputs, core.Input{Name: made[n] + " listener", Run: d.Run}), append(told, made[n], addr.String())
	}
	var names []string
	for _, s := range sources {
		names, inputs = append(names, s.Name), append(inputs, core.Input{Name: "source " + s.Name, Run: s.Run})
	}
	if len(names) > 0 {
		told = append(told, "sources", strings.Join(names, ","))
	}
	return inputs, told, nil
}

// listen opens the listener's port. A port that is taken is somebody else's fault.
func listen(d input) (net.Addr, error) {
	addr, err := d.Listen()
	if err != nil {
		return nil, coded(exitUnreachable, err)
	}
	return addr, nil
}

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// closeInputs closes listeners that have not been run.
func closeInputs(inputs []core.Input) error {
	ended, end := context.WithCancel(context.Background())
	end()
	var err error
	for _, d := range inputs {
		err = errors.Join(err, d.Run(ended))
	}
	return err
}

// httpConfig is the HTTP listener as c wants it.
func httpConfig(c *config.Config, log *slog.Logger) httplistener.Config {
	h := c.HTTP
	return httplistener.Config{
		Listen: h.Listen, Insecure: h.Insecure, Tokens: h.Tokens, TLSCert: h.TLSCert, TLSKey: h.TLSKey,
		Dialects: h.Dialects, MaxBatch: c.Limits.MaxBatch, MaxBatchBytes: int64(c.Limits.MaxBatchBytes),
		MaxConnections: h.MaxConnections, MaxUnansweredBytes: int64(h.MaxUnanswered),
		ReadHeaderTimeout: h.ReadHeaderTimeout, ReadTimeout: h.ReadTimeout, WriteTimeout: h.WriteTimeout,
		IdleTimeout: h.IdleTimeout, StopTimeout: h.StopTimeout, Log: log,
	}
}

// grpcConfig is the gRPC listener as c wants it.
func grpcConfig(c *config.Config, log *slog.Logger) grpclistener.Config {
	g := c.GRPC
	return grpclistener.Config{
		Listen: g.Listen, Insecure: g.Insecure, Tokens: g.Tokens, TLSCert: g.TLSCert, TLSKey: g.TLSKey,
		Reflection: g.Reflection, MaxBatch: c.Limits.MaxBatch, MaxBatchBytes: c.Limits.MaxBatchBytes,
		MaxMetadataBytes: g.MaxMetadataBytes, MaxStreams: g.MaxStreams,
		MaxConnections: g.MaxConnections, MaxUnansweredBytes: int64(g.MaxUnanswered),
		KeepaliveMin: g.KeepaliveMin, ConnectionAge: g.ConnectionAge, StopTimeout: g.StopTimeout, Log: log,
	}
}

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

// reportOn returns the reports of the sources, for the listeners.
func reportOn(sources []*source.Supervisor) func() []core.SourceReport {
	return func() (reports []core.SourceReport) {
		for _, s := range sources {
			reports = append(reports, s.Report())
		}
		return reports
	}
}
