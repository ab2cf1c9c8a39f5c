package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
)

func (a *app) pluginInfoCommand() *cobra.Command {
	var format string
	var mtls bool
	cmd := &cobra.Command{
		Use:   "info PROGRAM [-- ARGS...]",
		Short: "Show what a plugin is and how to configure it",
		Long: `Start a plugin, get its description, and stop it. The output has its settings, the
SHA-256 of the program, and a section for the configuration file of the bridge.`,
		Example: "  delaybridge plugin info ./bin/delaybridge-sink-mine",
		Args:    programArgs,
	}
	cmd.Flags().StringVar(&format, "format", "text", "output format: text or json")
	cmd.Flags().BoolVar(&mtls, "mtls", true, "use mutual TLS between host and plugin")
	cmd.RunE = a.runE(func(cmd *cobra.Command, args []string) error {
		if format != "text" && format != "json" {
			return usageError("--format must be text or json")
		}
		command, err := absolute(args[0])
		if err != nil {
			return err
		}
		about, err := kit.Describe(cmd.Context(), command, args[1:], mtls)
		if err != nil && mtls && strings.Contains(err.Error(), "mtls") { // the setting, which is a flag here
			err = fmt.Errorf("%w; for that, give --mtls=false", err)
		}
		if err != nil {
			return err
		}
		out := printer{w: a.stdout}
		if format == "json" {
			return out.value(about)
		}
		return out.about(about)
	})
	return cmd
}

func (p printer) about(a kit.About) error {
	var abilities []string
	if a.Checks {
		abilities = append(abilities, "checks messages at accept")
	}
	if a.TellsHealth {
		abilities = append(abilities, "tells its health")
	}
	batch := "as the host likes"
	if a.MaxBatch > 0 {
		batch = counted(a.MaxBatch, "message")
	}
	if a.MaxBatchBytes > 0 {
		batch += fmt.Sprintf(", %d bytes", a.MaxBatchBytes)
	}
	rows := [][2]string{
		{"name", a.Name}, {"version", a.Version}, {"description", a.Description}, {"protocol", strconv.Itoa(a.Protocol)},
		{"started in", fmt.Sprintf("%.0f ms", a.StartMillis)}, {"abilities", strings.Join(abilities, ", ")},
		{"largest batch", batch}, {"program", a.Command}, {"sha256", a.SHA256},
	}
	if err := p.pairs(rows); err != nil {
		return err
	}
	return p.print("\n" + a.Configuration)
}
