package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	grpcdoor "github.com/delaybridge/delaybridge/interceptors/grpc"
	httpdoor "github.com/delaybridge/delaybridge/interceptors/http"
	"github.com/delaybridge/delaybridge/interceptors/intake"
)

// door is a way in that listens.
type door interface {
	Listen() (net.Addr, error)
	Run(ctx context.Context) error
}

// checkDoors returns what is wrong with the sections of the doors.
func checkDoors(c *config.Config, log *slog.Logger) config.Faults {
	in := core.NewInterceptor(nil, c.Limits.Limits)
	_, err := httpdoor.New(httpConfig(c, log), in)
	faults, _ := errors.AsType[config.Faults](c.Fault("http", err))
	if c.GRPC.Listen != "" {
		_, err := grpcdoor.New(grpcConfig(c, log), in)
		more, _ := errors.AsType[config.Faults](c.Fault("grpc", err))
		faults = append(faults, more...)
	}
	return faults
}

// openDoors makes the doors that c wants and has those that listen do so. told is what there
// is to know about them, as a logger takes it. On error none listens.
func openDoors(c *config.Config, in *core.Interceptor, sources []*intake.Supervisor, log *slog.Logger) (doors []core.Door, told []any, err error) {
	made := []string{"http"}
	settings := httpConfig(c, log)
	settings.Intakes = reportOn(sources)
	http, err := httpdoor.New(settings, in)
	all := []door{http}
	if err == nil && c.GRPC.Listen != "" {
		var grpc *grpcdoor.Server
		grpc, err = grpcdoor.New(grpcConfig(c, log), in)
		made, all = append(made, "grpc"), append(all, grpc)
	}
	if err != nil {
		return nil, nil, coded(exitConfig, err)
	}
	for n, d := range all {
		addr, err := listen(d)
		if err != nil {
			return nil, nil, errors.Join(err, closeDoors(doors))
		}
		doors, told = append(doors, core.Door{Name: made[n] + " listener", Run: d.Run}), append(told, made[n], addr.String())
	}
	var names []string
	for _, s := range sources {
		names, doors = append(names, s.Name), append(doors, core.Door{Name: "source " + s.Name, Run: s.Run})
	}
	if len(names) > 0 {
		told = append(told, "intakes", strings.Join(names, ","))
	}
	return doors, told, nil
}

// closeDoors closes doors that listen and have not been run.
func closeDoors(doors []core.Door) error {
	ended, end := context.WithCancel(context.Background())
	end()
	var err error
	for _, d := range doors {
		err = errors.Join(err, d.Run(ended))
	}
	return err
}

// httpConfig is the HTTP door as c wants it.
func httpConfig(c *config.Config, log *slog.Logger) httpdoor.Config {
	h := c.HTTP
	return httpdoor.Config{
		Listen: h.Listen, Insecure: h.Insecure, Tokens: h.Tokens, TLSCert: h.TLSCert, TLSKey: h.TLSKey,
		Dialects: h.Dialects, MaxBatch: c.Limits.MaxBatch, MaxBatchBytes: int64(c.Limits.MaxBatchBytes),
		MaxConnections: h.MaxConnections, MaxUnansweredBytes: int64(h.MaxUnanswered),
		ReadHeaderTimeout: h.ReadHeaderTimeout, ReadTimeout: h.ReadTimeout, WriteTimeout: h.WriteTimeout,
		IdleTimeout: h.IdleTimeout, StopTimeout: h.StopTimeout, Log: log,
	}
}

// grpcConfig is the gRPC door as c wants it.
func grpcConfig(c *config.Config, log *slog.Logger) grpcdoor.Config {
	g := c.GRPC
	return grpcdoor.Config{
		Listen: g.Listen, Insecure: g.Insecure, Tokens: g.Tokens, TLSCert: g.TLSCert, TLSKey: g.TLSKey,
		Reflection: g.Reflection, MaxBatch: c.Limits.MaxBatch, MaxBatchBytes: c.Limits.MaxBatchBytes,
		MaxMetadataBytes: g.MaxMetadataBytes, MaxStreams: g.MaxStreams,
		MaxConnections: g.MaxConnections, MaxUnansweredBytes: int64(g.MaxUnanswered),
		KeepaliveMin: g.KeepaliveMin, ConnectionAge: g.ConnectionAge, StopTimeout: g.StopTimeout, Log: log,
	}
}
