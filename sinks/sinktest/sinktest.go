// Package sinktest is the test suite that every Sink passes, built-in or plugin. An
// author fills in a Kit, at least the functions that open the sink, create a topic and
// read it as consumers do, and calls Run:
//
//	func TestConformance(t *testing.T) {
//		sinktest.Run(t, sinktest.Kit{Open: open, NewTopic: newTopic, Consume: consume,
//			Can: []sinktest.Capability{sinktest.Headers, sinktest.Ordered}})
//	}
//
// Declare in the Kit only what the sink and its broker are capable of; cases about
// other capabilities are skipped. docs/plugins.md describes each case.
package sinktest

import (
	"testing"

	"github.com/delaybridge/delaybridge/sinks/suite"
)

type (
	// Kit describes a sink and its target to the suite.
	Kit = suite.Kit[testing.TB]
	// Refusal is a way in which the target refuses messages.
	Refusal = suite.Refusal[testing.TB]
	// Faults are what the suite may do to the target.
	Faults = suite.Faults[testing.TB]
	// Capability is something that not every broker can do.
	Capability = suite.Capability
	// Received is a message as a consumer sees it.
	Received = suite.Received
	// Reader returns the next message of a topic.
	Reader = suite.Reader
)

// The capabilities, as in package suite.
const (
	Headers         = suite.Headers
	HeaderOrder     = suite.HeaderOrder
	RepeatedHeaders = suite.RepeatedHeaders
	BinaryHeaders   = suite.BinaryHeaders
	NullHeaders     = suite.NullHeaders
	EmptyBody       = suite.EmptyBody
	NullBody        = suite.NullBody
	Keys            = suite.Keys
	NullKeys        = suite.NullKeys
	Ordered         = suite.Ordered
	Lanes           = suite.Lanes
)

// Run runs the suite against kit, each case as a subtest, one after the other.
func Run(t *testing.T, kit Kit) {
	if kit.Consume == nil {
		t.Fatal("Kit.Consume is nil: the suite could not check whether confirmed messages arrive")
	}
	for _, c := range suite.Cases() {
		t.Run(c.Name, func(t *testing.T) { suite.Run[testing.TB](t, c, kit) })
	}
}
