// Package plugin runs sinks as separate programs. On the host's side, Opener returns a
// core.OpenFunc whose sinks start the program, monitor it and restart it when it has
// ended. On the author's side, Serve turns a core.OpenFunc into such a program:
//
//	func main() { plugin.Serve(plugin.Definition{Name: "mine", Version: "0.1.0", Open: mine.Open}) }
//
// The protocol between the two is in proto/delaybridge/sink/v1/sink.proto; programs in
// other languages implement it directly. docs/plugins.md is the guide for authors and
// operators.
//
// # Settings of the host's side
//
//	command          absolute path of the program; required. It, the directories
//	                 above it and symbolic links in the path must belong to root or
//	                 to delaybridge's user, and not be writable for others
//	args             list of arguments
//	env              its environment variables, in addition to PATH, HOME, TMPDIR, LANG
//	pass_env         names of delaybridge's own variables that are passed on
//	sha256           checksum of the program, which runs from a private, checked
//	                 copy. Without it a warning is logged. It covers one file, not
//	                 the libraries or modules that the program loads
//	mtls             true: both sides authenticate with certificates made for this
//	                 start. Set it to false for a plugin without mTLS
//	start_timeout    bounds the start until the plugin has described itself, and then
//	                 its configuration; 10s
//	health_interval  between two health checks; 5s
//	stop_timeout     for the plugin to finish calls in progress at shutdown; 3s
//	required         false: PatientOpener opens the sink although its plugin does
//	                 not start
//	config           the plugin's own settings, which it checks
//
// # Supervision
//
// The host kills a plugin's process group and starts the plugin again if it ends, does not
// answer a health check within two seconds (every health_interval, and when a Deliver had
// no answer), returns an invalid reply, or answers no Deliver or no Check for a minute. The
// first restart is at once, later ones after up to 30 s, and once a minute if the plugin
// ended five times within a minute. Meanwhile Deliver fails at once. Child processes in
// another process group are not killed.
//
// The plugin's output is logged, up to 100 lines a second of 8 KiB each. On Linux the
// plugin is killed if the host ends; elsewhere it has to detect that itself, as Serve
// does.
//
// # Classes of errors
//
//	retry      the plugin is down, nothing was sent; or it reports this class
//	unknown    a call had no reply or an invalid one; or it reports this class
//	permanent  the message is larger than the plugin accepts; or it reports this class
//	blocked    the plugin can't run: its file, its handshake or its
//	           configuration is refused; or it reports this class
package plugin
