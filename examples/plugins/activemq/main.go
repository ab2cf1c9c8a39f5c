// Command delaybridge-sink-activemq is a plugin that delivers to Apache ActiveMQ
// over STOMP 1.2. README.md has its settings.
package main

import "github.com/delaybridge/delaybridge/sinks/plugin"

func main() { plugin.Serve(definition()) }

func definition() plugin.Definition {
	return plugin.Definition{
		Name: "activemq", Version: "v1.0.0", Description: "Delivers to queues or topics of Apache ActiveMQ over STOMP.",
		Settings: []plugin.Setting{
			{Name: "address", Description: "host:port of the broker's STOMP connector", Required: true},
			{Name: "login", Description: "name of the user"},
			{Name: "passcode", Description: "the user's password", Secret: true},
			{Name: "tls", Description: "an object turns TLS on: ca, cert, key, server_name, insecure_skip_verify"},
			{Name: "destination", Description: "what topics of messages are at the broker: queue or topic", Default: "queue"},
			{Name: "connections", Description: "1 to 64; each waits for the disk in turn", Default: "4"},
			{Name: "max_body_bytes", Description: "the largest body, 1 to 16777216", Default: "1048576"},
			{Name: "dial_timeout", Description: "for a connection, TLS and login together", Default: "5s"},
		},
		Open: open, Checks: true, TellsHealth: true,
	}
}
