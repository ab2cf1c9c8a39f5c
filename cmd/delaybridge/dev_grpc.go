package main

import (
	"log/slog"

	"github.com/delaybridge/delaybridge/core"
	grpclistener "github.com/delaybridge/delaybridge/interceptors/grpc"
)

// openGRPC listens where it was asked to, if it was.
func (b *devBridge) openGRPC(addr string, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	made, err := grpclistener.New(grpclistener.Config{Listen: addr, Reflection: true, Log: log}, b.in)
	if err != nil {
		return coded(exitUsage, err)
	}
	if b.grpcAddr, err = listen(made); err != nil {
		return err
	}
	b.grpc = made
	return nil
}

func (b *devBridge) inputs() []core.Input {
	inputs := []core.Input{{Name: "http listener", Run: b.input.Run}}
	if b.grpc != nil {
		inputs = append(inputs, core.Input{Name: "grpc listener", Run: b.grpc.Run})
	}
	return inputs
}
