package main

import (
	"log/slog"

	"github.com/delaybridge/delaybridge/core"
	grpcdoor "github.com/delaybridge/delaybridge/interceptors/grpc"
)

// openGRPC listens where it was asked to, if it was.
func (b *devBridge) openGRPC(addr string, log *slog.Logger) error {
	if addr == "" {
		return nil
	}
	made, err := grpcdoor.New(grpcdoor.Config{Listen: addr, Reflection: true, Log: log}, b.in)
	if err != nil {
		return coded(exitUsage, err)
	}
	if b.grpcAddr, err = listen(made); err != nil {
		return err
	}
	b.grpc = made
	return nil
}

func (b *devBridge) doors() []core.Door {
	doors := []core.Door{{Name: "http listener", Run: b.door.Run}}
	if b.grpc != nil {
		doors = append(doors, core.Door{Name: "grpc listener", Run: b.grpc.Run})
	}
	return doors
}
