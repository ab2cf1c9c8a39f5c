package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
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

func (a *app) verifyPlugin(ctx context.Context, f verifyFlags, args []string) error {
	cases, err := kit.ChooseCases(f.cases)
	if err != nil {
		return usageError("--" + err.Error())
	}
	var capabilities []string
	for _, c := range suite.Capabilities() {
		capabilities = append(capabilities, string(c))
	}
	target, err := config.LoadVerify(f.config, capabilities)
	if err != nil {
		return err
	}
	command, err := absolute(args[0])
	if err != nil {
		return err
	}
	progress := verifyProgress{printer: printer{w: a.stdout}, quiet: f.format != "text" && f.output == "", title: command}
	report, err := kit.Verify(ctx, command, args[1:], *target, cases, progress.step)
	if err != nil {
		return err
	}
	progress.summary(report)
	if err := a.writeReport(f, report); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if report.Failed > 0 {
		return coded(exitConflict, errReported)
	}
	return nil
}

// writeReport writes the whole report, unless its text has been printed step by
// step.
func (a *app) writeReport(f verifyFlags, r *kit.Report) error {
	if f.format == "text" && f.output == "" {
		return nil
	}
	text, err := reportText(r, f.format)
	if err != nil {
		return err
	}
	if f.output == "" {
		return printer{w: a.stdout}.print(string(text))
	}
	if err := os.WriteFile(f.output, text, 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func reportText(r *kit.Report, format string) ([]byte, error) {
	switch format {
	case "junit":
		return r.JUnit()
	case "json":
		text, err := json.MarshalIndent(r, "", "  ")
		return append(text, '\n'), err
	}
	var out bytes.Buffer
	progress := verifyProgress{printer: printer{w: &out}, title: r.Program}
	for _, result := range r.Results {
		progress.step(result)
	}
	progress.summary(r)
	return out.Bytes(), nil
}

// verifyProgress prints results as they come.
type verifyProgress struct {
	printer
	quiet        bool
	title, group string
}

// say prints for people: what can't be printed is not worth ending for.
func (p *verifyProgress) say(text string) {
	if !p.quiet {
		_ = p.print(text) // see above
	}
}

func (p *verifyProgress) step(r kit.Result) {
	if p.group == "" {
		p.say(escape(p.title) + "\n")
	}
	if r.Group != p.group {
		p.say("\n" + r.Group + "\n")
		p.group = r.Group
	}
	word := map[suite.Status]string{suite.Passed: "ok  ", suite.Failed: "FAIL", suite.Skipped: "skip"}[r.Status]
	line := fmt.Sprintf("  %s  %s (%.2f s)", word, r.Name, r.Seconds)
	if r.Status == suite.Skipped && len(r.Log) > 0 {
		line = fmt.Sprintf("  %s  %s: %s", word, r.Name, r.Log[len(r.Log)-1])
	}
	p.say(escape(line) + "\n")
	if r.Status == suite.Failed {
		for _, entry := range r.Log {
			for text := range strings.Lines(entry) {
				p.say("          " + escape(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\t", "  ")) + "\n")
			}
		}
	}
}

func (p *verifyProgress) summary(r *kit.Report) {
	p.say(fmt.Sprintf("\n%d passed, %d failed, %d skipped, in %.0f s\n", r.Passed, r.Failed, r.Skipped, r.Seconds))
	if !r.Reader {
		p.say("The file has no reader, so the arrival of confirmed messages was not checked:\nthe plugin may not deliver anything.\n")
	}
}
