//go:build !failpoints || !unix

package main

import (
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
)

// faultyStore and faultySink do nothing here; with the tag failpoints they stand
// around the store and the sinks and fail as a test says.
func faultyStore(s *redisstore.Store) *redisstore.Store { return s }

func faultySink(s core.Sink) core.Sink { return s }
