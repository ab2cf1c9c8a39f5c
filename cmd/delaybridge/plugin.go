package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) pluginCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "plugin",
		Short: "Create, inspect and verify sink plugins",
		Long: `Create, inspect and verify sink plugins: programs of their own, in any language.
docs/plugins.md is the guide.`,
		Example: "  delaybridge plugin new mine --lang go\n  delaybridge plugin verify ./bin/delaybridge-sink-mine --config verify.yaml\n" +
			"  delaybridge plugin info ./bin/delaybridge-sink-mine",
	}, a.pluginNewCommand(), a.pluginVerifyCommand(), a.pluginInfoCommand())
}

// program is a plugin as the host's configuration names it.
type program struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	MTLS    bool              `json:"mtls"`
	Config  json.RawMessage   `json:"config,omitempty"`
}

// newProgram takes a path that may be relative.
func newProgram(path string, args []string, mtls bool) (program, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return program{}, fmt.Errorf("find %s: %w", path, err)
	}
	return program{Command: absolute, Args: args, MTLS: mtls}, nil
}

// with is the configuration of a sink of this plugin, which gets config.
func (p program) with(config json.RawMessage) json.RawMessage {
	p.Config = config
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // config has been decoded or encoded before
	}
	return raw
}

// programArgs are one path and, after --, the arguments of the program there.
func programArgs(cmd *cobra.Command, args []string) error {
	if n := cmd.ArgsLenAtDash(); n != 1 && len(args) != 1 || n == 0 {
		return usageError("give the path of one program; its own arguments come after --")
	}
	return nil
}
