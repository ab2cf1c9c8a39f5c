// Command delaybridge-sink-file is a plugin that writes messages to files.
package main

import "github.com/delaybridge/delaybridge/sinks/plugin"

func main() { plugin.Serve(definition()) }

func definition() plugin.Definition {
	return plugin.Definition{
		Name: "file", Version: "v1.0.0", Description: "Appends messages to files, one for each topic.",
		Settings: []plugin.Setting{{Name: "dir", Description: "absolute path of the directory of the files; it must exist", Required: true}},
		Open:     open, Checks: true,
	}
}
