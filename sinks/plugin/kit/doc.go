// Package kit is for authors of plugins: it creates the source of a new plugin,
// describes a plugin, and verifies that a plugin follows the protocol and passes the
// suite of sinks. It implements the commands delaybridge plugin new, info and verify.
package kit
