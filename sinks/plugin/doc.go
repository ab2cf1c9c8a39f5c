// Package plugin runs sinks as programs of their own. Opener, on the host's
// side, makes of a plugin a core.Sink like any other: it starts the program,
// watches it, and restarts it when it has died. Serve, on the author's side,
// makes of a core.OpenFunc such a program:
//
//	func main() { plugin.Serve(plugin.Definition{Name: "mine", Version: "0.1.0", Open: mine.Open}) }
//
// The protocol between the two is in proto/delaybridge/sink/v1/sink.proto;
// programs in other languages serve it by themselves. docs/plugins.md is the
// guide for authors and operators.
//
// # Settings of the host's side
//
//	command          absolute path of the program; required. It, the directories
//	                 above it and symbolic links on the way must be root's or our
//	                 user's, and not writable for others
//	args             list of arguments
//	env              variables that it gets, besides PATH, HOME, TMPDIR and LANG
//	pass_env         names of variables of delaybridge that it gets too
//	sha256           of the program: what was hashed is what runs, from a private
//	                 copy. Without it there is a warning. It pins the one file, not
//	                 the libraries or modules that the program loads
//	mtls             true: both sides show each other a certificate made for this
//	                 start. Set it to false for a plugin that can't do it
//	start_timeout    until it listens and says what it is, and again for its
//	                 configuration; 10s
//	health_interval  between two questions whether it lives; 5s
//	stop_timeout     to finish what it has in flight when we end; 3s
//	required         false: PatientOpener's sinks are there although their plugin does
//	                 not start
//	config           the plugin's own settings, which it checks
//
// # What the host does to it
//
// A plugin that ends, does not say within two seconds that it lives (asked every
// health_interval, and when a Deliver had no answer), gives a reply that makes no
// sense, or answers no Deliver or no Check for a minute, is killed with its process group and
// started again: at once at first, after up to 30 s if it keeps ending, and once a
// minute if it ended five times within one. Meanwhile Deliver fails at once.
// Processes that leave the group, by a session of their own, are not found.
//
// What it prints goes to the log, 100 lines a second, 8 KiB each. On Linux it
// dies with the host; elsewhere it has to watch that itself, as Serve does.
//
// # Classes of errors
//
//	retry      the plugin is down, nothing was sent; or it says so
//	unknown    a call had no reply, or one that makes no sense; or it says so
//	permanent  the message is larger than the plugin takes; or it says so
//	blocked    the plugin can't run as it is: its file, its handshake or its
//	           configuration is refused; or it says so
package plugin
