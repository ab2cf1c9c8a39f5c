// Package kit is for authors of plugins: it writes the source of a new one, reports what
// one is, and checks that one follows the protocol and delivers as every sink does. The
// commands delaybridge plugin new, info and verify print what it finds.
package kit
