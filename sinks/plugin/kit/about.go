package kit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// program is a plugin as the configuration of its sink names it.
type program struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	MTLS    bool              `json:"mtls"`
}

// with is the configuration of a sink of this plugin, which gets config.
func (p program) with(config json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(struct {
		program
		Config json.RawMessage `json:"config,omitempty"`
	}{p, config})
	if err != nil {
		panic(err) // config has been decoded or encoded before
	}
	return raw
}

// About describes a plugin.
type About struct {
	plugin.Info
	StartMillis   float64 `json:"start_ms"`
	Command       string  `json:"command"`
	SHA256        string  `json:"sha256"`
	Configuration string  `json:"configuration"` // section for delaybridge's configuration, in YAML
}

// startTimeout is for a plugin to start and to describe itself.
const startTimeout = 15 * time.Second

// Describe starts the program at command, an absolute path, as a plugin, gets its
// description and stops it. All texts are printable.
func Describe(ctx context.Context, command string, args []string, mtls bool) (About, error) {
	p := program{Command: command, Args: args, MTLS: mtls}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	info, err := plugin.Inspect(ctx, p.with(nil), nil)
	if err != nil {
		return About{}, fmt.Errorf("start %s: %w", p.Command, err)
	}
	info.Settings = slices.Concat([]plugin.Setting{}, info.Settings) // in JSON a list
	a := About{Info: info, StartMillis: float64(info.Start.Microseconds()) / 1000, Command: p.Command}
	if a.SHA256, err = hashFile(p.Command); err != nil {
		return About{}, err
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
func (a About) section(p program) string {
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
		fmt.Fprintf(&out, "        %s\n", settingLine(s))
	}
	return out.String()
}

func settingLine(s plugin.Setting) string {
	value, mark := s.Default, "# "
	switch {
	case s.Required && s.Secret:
		value, mark = `"${...}"`, ""
	case s.Required:
		value, mark = `"..."`, ""
	}
	line := mark + s.Name + ": " + value
	if s.Description != "" {
		line = strings.TrimRight(line, " ") + " # " + s.Description
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
