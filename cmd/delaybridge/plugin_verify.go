package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/sinks/suite"
)

type verifyFlags struct {
	config, format, output string
	cases                  []string
}

func (a *app) pluginVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PROGRAM [--config FILE] [-- ARGS...]",
		Short: "Run the sink conformance tests against a plugin",
		Long: `Check that a plugin follows the protocol, then run the conformance tests that every
sink passes. The file says how the sink is configured, what its broker can do, and how
to read the messages that arrived; docs/plugins.md lists its keys. Without a reader the
arrival of confirmed messages is not checked, and the report says so.

The exit code is 0 if nothing failed, and 6 otherwise.`,
		Example: "  delaybridge plugin verify ./bin/delaybridge-sink-mine --config verify.yaml\n" +
			"  delaybridge plugin verify ./sink.py --config verify.yaml --format junit --output report.xml\n" +
			"  delaybridge plugin verify ./sink.py --config verify.yaml --case K4 --case K9",
		Args: programArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "path of the YAML file that says how to verify")
	flags.StringVar(&f.format, "format", "text", "report format: text, json or junit")
	flags.StringSliceVar(&f.cases, "case", nil, "names of the cases to run, such as V7,K4; the cases that they need run too (default: all)")
	flags.StringVar(&f.output, "output", "", "path of a file for the report; standard output then shows text")
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"text", "json", "junit"}, f.format) {
			return usageError("--format must be text, json or junit")
		}
		return a.verifyPlugin(cmd.Context(), f, args)
	})
	return cmd
}

// capabilities that a file can declare.
func capabilities() []string {
	var names []string
	for _, c := range suite.Capabilities() {
		names = append(names, string(c))
	}
	return names
}

func (a *app) verifyPlugin(ctx context.Context, f verifyFlags, args []string) (err error) {
	cases, err := chooseCases(f.cases)
	if err != nil {
		return err
	}
	settings, err := config.LoadVerify(f.config, capabilities())
	if err != nil {
		return err
	}
	p, err := newProgram(args[0], slices.Concat(settings.Args, args[1:]), settings.MTLS)
	if err != nil {
		return err
	}
	v, err := newVerifier(p, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(v.tmp)) }()
	progress := verifyProgress{printer: printer{w: a.stdout}, quiet: f.format != "text" && f.output == ""}
	progress.title(v.Command)
	v.run(ctx, cases, progress.step)
	progress.summary(v.report)
	if err := a.writeReport(f, v.report); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if v.report.Failed > 0 {
		return coded(exitConflict, errReported)
	}
	return nil
}

// writeReport writes the whole report, unless its text has been printed step by
// step.
func (a *app) writeReport(f verifyFlags, r *verifyReport) error {
	if f.format == "text" && f.output == "" {
		return nil
	}
	var out strings.Builder
	if err := r.write(printer{w: &out}, f.format); err != nil {
		return err
	}
	if f.output == "" {
		return printer{w: a.stdout}.print(out.String())
	}
	if err := os.WriteFile(f.output, []byte(out.String()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
