package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// inspectTimeout is for a plugin to start and to describe itself.
const inspectTimeout = 15 * time.Second

func (a *app) pluginInfoCommand() *cobra.Command {
	var format string
	var mtls bool
	cmd := &cobra.Command{
		Use:   "info PROGRAM [-- ARGS...]",
		Short: "Show what a plugin is and how to configure it",
		Long: `Start a plugin, ask it what it is, and stop it. The answer has its settings, the
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
		p, err := newProgram(args[0], args[1:], mtls)
		if err != nil {
			return err
		}
		about, err := examine(cmd.Context(), p)
		if err != nil {
			return err
		}
		out := printer{w: a.stdout}
		if format == "json" {
			return out.value(about)
		}
		return about.print(out)
	})
	return cmd
}

// about is what there is to know about a plugin.
type about struct {
	Name          string         `json:"name"`
	Version       string         `json:"version"`
	Description   string         `json:"description,omitempty"`
	Protocol      int            `json:"protocol"`
	StartMillis   float64        `json:"start_ms"`
	Checks        bool           `json:"checks"`
	TellsHealth   bool           `json:"tells_health"`
	MaxBatch      int            `json:"max_batch,omitempty"`
	MaxBatchBytes int64          `json:"max_batch_bytes,omitempty"`
	Settings      []aboutSetting `json:"settings"`
	Command       string         `json:"command"`
	SHA256        string         `json:"sha256"`
	Configuration string         `json:"configuration"` // YAML
}

type aboutSetting struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Default     string `json:"default,omitempty"`
	Required    bool   `json:"required"`
	Secret      bool   `json:"secret"`
}

func examine(ctx context.Context, p program) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	info, err := plugin.Inspect(ctx, p.with(nil), nil)
	if err != nil && p.MTLS && strings.Contains(err.Error(), "mtls") { // the setting, which is a flag here
		return about{}, fmt.Errorf("start %s: %w; for that, give --mtls=false", p.Command, err)
	}
	if err != nil {
		return about{}, fmt.Errorf("start %s: %w", p.Command, err)
	}
	a := about{
		Name: info.Name, Version: info.Version, Description: info.Description, Protocol: info.Protocol,
		StartMillis: float64(info.Start.Microseconds()) / 1000, Checks: info.Checks, TellsHealth: info.TellsHealth,
		MaxBatch: info.MaxBatch, MaxBatchBytes: info.MaxBatchBytes, Settings: []aboutSetting{}, Command: p.Command,
	}
	for _, s := range info.Settings {
		a.Settings = append(a.Settings, aboutSetting(s))
	}
	if a.SHA256, err = hashFile(p.Command); err != nil {
		return about{}, err
	}
	a.Configuration = a.section(p)
	return a, nil
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash plugin: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("hash plugin: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// section is what to write into the bridge's configuration.
func (a about) section(p program) string {
	var out strings.Builder
	fmt.Fprintf(&out, "sinks:\n  %s:\n    type: plugin\n    config:\n      command: %s\n", quoteYAML(a.Name), quoteYAML(p.Command))
	if len(p.Args) > 0 {
		args := make([]string, len(p.Args))
		for n, arg := range p.Args {
			args[n] = quoteYAML(arg)
		}
		fmt.Fprintf(&out, "      args: [%s]\n", strings.Join(args, ", "))
	}
	fmt.Fprintf(&out, "      sha256: %s\n", a.SHA256)
	if !p.MTLS {
		out.WriteString("      mtls: false\n")
	}
	required := false
	for _, s := range a.Settings {
		required = required || s.Required
	}
	switch {
	case required:
		out.WriteString("      config:\n")
	case len(a.Settings) > 0:
		out.WriteString("      # config:\n")
	}
	for _, s := range a.Settings {
		fmt.Fprintf(&out, "        %s\n", s.line())
	}
	return out.String()
}

func (s aboutSetting) line() string {
	value, mark := s.Default, "# "
	switch {
	case s.Required && s.Secret:
		value, mark = `"${...}"`, ""
	case s.Required:
		value, mark = `"..."`, ""
	}
	line := mark + escape(s.Name) + ": " + escape(value)
	if s.Description != "" {
		line = strings.TrimRight(line, " ") + " # " + escape(s.Description)
	}
	return line
}

// quoteYAML quotes text that is not surely plain.
func quoteYAML(s string) string {
	plain := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" &&
		strings.Trim(s[:1], "abcdefghijklmnopqrstuvwxyz/") == ""
	if plain {
		return s
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(strings.ReplaceAll(s, "$", "$$")) // a string always has a JSON form, which YAML reads
	return strings.TrimSpace(out.String())
}

func (a about) print(out printer) error {
	abilities := []string{}
	for name, has := range map[string]bool{"checks messages at accept": a.Checks, "tells its health": a.TellsHealth} {
		if has {
			abilities = append(abilities, name)
		}
	}
	if len(abilities) == 2 && abilities[0] > abilities[1] {
		abilities[0], abilities[1] = abilities[1], abilities[0]
	}
	rows := [][2]string{
		{"name", a.Name}, {"version", a.Version}, {"description", a.Description}, {"protocol", strconv.Itoa(a.Protocol)},
		{"started in", fmt.Sprintf("%.0f ms", a.StartMillis)}, {"abilities", strings.Join(abilities, ", ")},
		{"largest batch", a.batch()}, {"program", a.Command}, {"sha256", a.SHA256},
	}
	if err := out.pairs(rows); err != nil {
		return err
	}
	return out.print("\n" + a.Configuration)
}

func (a about) batch() string {
	messages, bytes := "as the host likes", ""
	if a.MaxBatch > 0 {
		messages = counted(a.MaxBatch, "message")
	}
	if a.MaxBatchBytes > 0 {
		bytes = fmt.Sprintf(", %d bytes", a.MaxBatchBytes)
	}
	return messages + bytes
}
