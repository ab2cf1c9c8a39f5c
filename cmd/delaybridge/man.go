package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Long:    "Write a manual page in section 1 for each command into a directory, which is created if needed.",
		Example: "  delaybridge man man1\n  man ./man1/delaybridge-send.1",
		Args:    oneArgument("the path of the directory"),
	}
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("write the manual pages: %w", err)
		}
		root := cmd.Root()
		root.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Source: "delaybridge " + buildVersion(), Manual: "delaybridge"}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write the manual pages: %w", err)
		}
		return nil
	})
	return cmd
}
