// Package plugin runs sinks as programs of their own. Open, on the host's side,
// makes of a plugin a core.Sink like any other: it starts the program, watches
// it, and starts it anew when it has died. Serve, on the author's side, makes of
// a core.OpenFunc such a program:
//
//	func main() { plugin.Serve(plugin.Definition{Name: "mine", Version: "0.1.0", Open: mine.Open}) }
//
// The protocol between the two is in proto/delaybridge/sink/v1/sink.proto;
// programs in other languages serve it by themselves. docs/plugins.md is the
// guide for authors and operators.
package plugin
