//go:build !failpoints || !unix

// Package failpoints lets a test inject faults at chosen points. It is active only in a
// build with the tag failpoints.
package failpoints

import "github.com/delaybridge/delaybridge/core"

// Wrap returns store; with the tag failpoints, store with failpoints.
func Wrap(store core.Store) core.Store { return store }

// WrapSink returns sink; with the tag failpoints, sink with failpoints.
func WrapSink(sink core.Sink) core.Sink { return sink }
