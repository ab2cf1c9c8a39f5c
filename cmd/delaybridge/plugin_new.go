package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
)

func (a *app) pluginNewCommand() *cobra.Command {
	var p kit.Project
	var dir string
	cmd := &cobra.Command{
		Use:   "new NAME --lang go|python|node",
		Short: "Create the source of a new plugin",
		Long: `Create a complete plugin to start from: a sink that appends messages to files, with
its settings, error classes and tests, and files to build and verify it. Nothing is
downloaded. It is written to ./` + kit.Prefix + `NAME, or to --dir, which must be empty.

A plugin in Go needs the module ` + kit.Module + `: the version
of this program, or a checkout if --delaybridge-dir names one or the command runs
inside one.`,
		Example: "  delaybridge plugin new mine --lang go\n  delaybridge plugin new mine --lang python --dir ./mine",
		Args:    oneArgument("the name of the plugin"),
	}
	languages := strings.Join(kit.Languages(), ", ")
	flags := cmd.Flags()
	flags.StringVar(&p.Language, "lang", "", "language: "+languages)
	flags.StringVar(&dir, "dir", "", "directory to create (default ./"+kit.Prefix+"NAME)")
	flags.StringVar(&p.Checkout, "delaybridge-dir", "", "path of a delaybridge checkout to build a Go plugin against")
	cmd.RunE = a.runE(func(_ *cobra.Command, args []string) error {
		switch {
		case p.Language == "":
			return usageError("give --lang: " + languages)
		case !slices.Contains(kit.Languages(), p.Language):
			return usageError(fmt.Sprintf("--lang %q is not known; known are %s", p.Language, languages))
		case p.Checkout != "" && p.Language != "go":
			return usageError("--delaybridge-dir is for --lang go")
		}
		p.Name, p.Version = args[0], buildVersion()
		if err := p.Check(); err != nil {
			return coded(exitUsage, err)
		}
		dir = cmp.Or(dir, kit.Prefix+p.Name)
		if err := p.Create(dir); err != nil {
			return err
		}
		return printer{w: a.stdout}.print(nextSteps(p.Language, escape(dir)))
	})
	return cmd
}

func nextSteps(language, dir string) string {
	return fmt.Sprintf("%s: a sink in %s that appends messages to files\n\n  cd %s\n  make            # builds and tests it\n"+
		"  make verify     # runs the conformance tests\n  make dev        # tries it out\n\nREADME.md says which files are yours.\n",
		dir, map[string]string{"go": "Go", "python": "Python", "node": "JavaScript"}[language], dir)
}
