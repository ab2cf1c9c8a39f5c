//go:build !failpoints || !unix

// Package failpoints lets a test inject faults at chosen points. It is active only in a
// build with the tag failpoints.
package failpoints

import "github.com/delaybridge/delaybridge/core"

// Wrap returns store. With the tag failpoints, it returns store and wraps the sinks
// with failpoints.
func Wrap(store core.Store, _ []*core.Dispatcher) core.Store { return store }
