//go:build !unix

package main

import (
	"context"
	"errors"
)

func measureBrokers(context.Context, *bench) error { return errors.ErrUnsupported }

func measureSource(context.Context, *bench) error { return errors.ErrUnsupported }
