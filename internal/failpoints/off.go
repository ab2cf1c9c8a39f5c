//go:build !failpoints || !unix

// Package failpoints lets a test break the bridge at chosen points. It does so only in
// a build with the tag failpoints; any other build gets back what it gives.
package failpoints

import "github.com/delaybridge/delaybridge/core"

// Wrap returns store. With the tag failpoints it returns store in a wrapper with places
// to fail in, and puts such wrappers around the sinks.
func Wrap(store core.Store, _ []*core.Dispatcher) core.Store { return store }
