package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// Setting describes one key of a plugin's configuration for people and tools. Only
// Definition.Open checks settings.
type Setting struct {
	Name        string `json:"name"`                  // a path with dots: "tls.ca"
	Description string `json:"description,omitempty"` // purpose, unit and bounds, in one line
	Default     string `json:"default,omitempty"`     // value used if it is left out, as written in the file
	Required    bool   `json:"required"`
	Secret      bool   `json:"secret"` // its value must never be printed
}

// Definition defines a plugin. Name, Version and Open must be set.
type Definition struct {
	Name        string // in lower case, as in delaybridge-sink-NAME
	Version     string // as in v1.2.3
	Description string // where it delivers to, in one sentence
	Settings    []Setting

	// MaxBatch and MaxBatchBytes bound the messages, and their bytes, of one Deliver; 0
	// is the host's bound.
	MaxBatch      int
	MaxBatchBytes int64

	// Open opens the sink, once in the life of the process. Its context ends if the
	// host's start_timeout is over before Open returns.
	Open core.OpenFunc
	// Checks and TellsHealth declare that the sink is a core.Checker and a
	// core.HealthChecker, because the host asks before the sink is open.
	Checks      bool
	TellsHealth bool
}

// check finds mistakes of the author.
func (d Definition) check() error {
	switch {
	case d.Name == "":
		return errors.New("plugin.Definition has no Name")
	case d.Version == "":
		return errors.New("plugin.Definition has no Version")
	case d.Open == nil:
		return errors.New("plugin.Definition has no Open")
	}
	return nil
}

func (d Definition) describe() *sinkv1.DescribeResponse {
	r := &sinkv1.DescribeResponse{
		Name: d.Name, Version: d.Version, Description: d.Description, Checks: d.Checks, TellsHealth: d.TellsHealth,
		MaxBatch: int32(d.MaxBatch), MaxBatchBytes: d.MaxBatchBytes, Settings: make([]*sinkv1.Setting, len(d.Settings)),
	}
	for n, s := range d.Settings {
		r.Settings[n] = &sinkv1.Setting{
			Name: s.Name, Description: s.Description, DefaultValue: s.Default, Required: s.Required, Secret: s.Secret,
		}
	}
	return r
}

// printJSON writes what Describe answers, with the names of the .proto file.
func (d Definition) printJSON(w io.Writer) error {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d.describe())
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	var out bytes.Buffer // protojson's own spaces differ from build to build
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

// explain tells someone who ran the plugin by hand what to do with it.
func (d Definition) explain(w io.Writer, path string) {
	fmt.Fprintf(w, "%s %s is a sink for delaybridge", d.Name, d.Version)
	if d.Description != "" {
		fmt.Fprintf(w, ": %s", strings.TrimSuffix(d.Description, "."))
	}
	fmt.Fprintf(w, ".\nIt is started by delaybridge, not by hand. Write in its configuration:\n\n"+
		"sinks:\n  %s:\n    type: plugin\n    config:\n      command: %s\n", d.Name, path)
	if len(d.Settings) > 0 {
		fmt.Fprintln(w, "      config:")
		for _, s := range d.Settings {
			fmt.Fprintf(w, "        %s\n", s.line())
		}
	}
	fmt.Fprintln(w, "\nWith --describe it prints the same as JSON.")
}

// line shows a setting as it is written in the file; what may be left out is a
// comment.
func (s Setting) line() string {
	var b strings.Builder
	if !s.Required {
		b.WriteString("# ")
	}
	b.WriteString(s.Name + ":")
	if s.Default != "" {
		b.WriteString(" " + s.Default)
	}
	if s.Description != "" {
		b.WriteString("  # " + s.Description)
	}
	return b.String()
}
