package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
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

// metricsConfig is the listener of metrics as c wants it. What it has in common with the
// HTTP listener is configured there.
func metricsConfig(c *config.Config, log *slog.Logger) httplistener.Config {
	settings, m := httpConfig(c, log), c.Metrics
	settings.Listen, settings.Tokens, settings.Insecure, settings.TLSCert, settings.TLSKey = m.Listen, m.Tokens, m.Insecure, m.TLSCert, m.TLSKey
	settings.MetricsOnly = true
	return settings
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

// newSources makes some of the sources of c, which read nothing before they run. On
// error, which has every fault, there are none.
func newSources(c *config.Config, which []config.Source, in *core.Interceptor, log *slog.Logger) ([]*source.Supervisor, error) {
	types, made := sourceTypes(), make([]*source.Supervisor, 0, len(which))
	var faults config.Faults
	for _, i := range which {
		r, err := types[i.Type](i.Name, i.Config, in.For(i.Name), log)
		faults = append(faults, faultsOf(c.Fault("sources."+i.Name+".config", err))...)
		made = append(made, &source.Supervisor{Reader: r, Name: i.Name, Log: log})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return made, nil
}

func sourceInput(s *source.Supervisor) core.Input {
	return core.Input{Name: sourcePart(s.Name), Run: s.Run}
}

func sourcePart(name string) string { return "source " + name }
