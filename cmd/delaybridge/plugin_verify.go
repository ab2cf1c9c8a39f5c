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
		Short: "Hold a plugin to what a sink promises",
		Long: `Start a plugin in many ways and hold it to the protocol, then run the suite that
every sink passes. The file says how the sink is configured, what its broker can
do, and how to read what has arrived; docs/plugins.md lists its keys. Without a
reader, nobody looks whether what is confirmed has arrived, and the report says so.

The exit code is 0 if nothing failed, and 6 if something did.`,
		Example: "  delaybridge plugin verify ./bin/delaybridge-sink-mine --config verify.yaml\n" +
			"  delaybridge plugin verify ./sink.py --config verify.yaml --format junit --output report.xml\n" +
			"  delaybridge plugin verify ./sink.py --config verify.yaml --case K4 --case K9",
		Args: programArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "file that says how to verify (YAML)")
	flags.StringVar(&f.format, "format", "text", "of the report: text, json or junit")
	flags.StringSliceVar(&f.cases, "case", nil, "run these only, such as V7,K4; what they need is run too (default: all)")
	flags.StringVar(&f.output, "output", "", "write the report to this file; standard output then has text")
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
