// Command badplugin is a plugin with faults, which its arguments name.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func has(fault string) bool { return slices.Contains(os.Args[1:], fault) }

type sink struct{}

// Deliver confirms what it has not sent.
func (sink) Deliver(context.Context, []*core.Message) error { return nil }
func (sink) Close() error                                   { return nil }

func open(_ context.Context, raw json.RawMessage) (core.Sink, error) {
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	if has("leaky") {
		slog.Info("opened", "config", string(raw))
	}
	if _, known := config["no_such_setting"]; known && !has("lax") {
		return nil, core.Invalidf("no_such_setting", "is not known")
	}
	if value, text := config["password"].(string); value == "" || !text {
		return nil, core.Invalidf("password", "must be text")
	}
	return sink{}, nil
}

func main() {
	if has("noisy") {
		fmt.Println("starting up")
	}
	plugin.Serve(plugin.Definition{
		Name: "bad", Version: "0.1.0", Description: "delivers to nowhere", Open: open,
		Settings: []plugin.Setting{{Name: "password", Description: "of nothing", Required: true, Secret: true}},
	})
}
