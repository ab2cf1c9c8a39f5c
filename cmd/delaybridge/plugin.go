package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) pluginCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "plugin",
		Short: "Create, inspect and verify sink plugins",
		Long: `Create, inspect and verify sink plugins: separate programs, in any language.
docs/plugins.md is the guide.`,
		Example: "  delaybridge plugin new mine --lang go\n  delaybridge plugin verify ./bin/delaybridge-sink-mine --config verify.yaml\n" +
			"  delaybridge plugin info ./bin/delaybridge-sink-mine",
	}, a.pluginNewCommand(), a.pluginVerifyCommand(), a.pluginInfoCommand())
}

// absolute is for the path of a program, which is executed in other directories.
func absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the program: %w", err)
	}
	return path, nil
}

// programArgs are one path and, after --, the arguments of the program there.
func programArgs(cmd *cobra.Command, args []string) error {
	if n := cmd.ArgsLenAtDash(); n != 1 && len(args) != 1 || n == 0 {
		return usageError("give the path of one program; its own arguments come after --")
	}
	return nil
}
