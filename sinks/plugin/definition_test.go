package plugin

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example() Definition {
	return Definition{
		Name: "pigeon", Version: "v1.2.3", Description: "Carries messages by pigeon.", MaxBatch: 10, MaxBatchBytes: 4096, Checks: true,
		Settings: []Setting{
			{Name: "loft", Description: "where they live", Required: true},
			{Name: "speed", Description: "in km/h", Default: "60"},
			{Name: "whistle", Secret: true},
		},
	}
}

func TestExplain(t *testing.T) {
	var out bytes.Buffer
	example().explain(&out, "/usr/lib/pigeon")
	want := `pigeon v1.2.3 is a sink for delaybridge: Carries messages by pigeon.
It is started by delaybridge, not by hand. Write in its configuration:

sinks:
  pigeon:
    type: plugin
    config:
      command: /usr/lib/pigeon
      config:
        loft:  # where they live
        # speed: 60  # in km/h
        # whistle:

With --describe it prints the same as JSON.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestDescribeAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := example().printJSON(&out); err != nil {
		t.Fatal(err)
	}
	want := `{
  "name": "pigeon",
  "version": "v1.2.3",
  "description": "Carries messages by pigeon.",
  "checks": true,
  "max_batch": 10,
  "max_batch_bytes": "4096",
  "settings": [
    {
      "name": "loft",
      "description": "where they live",
      "required": true
    },
    {
      "name": "speed",
      "description": "in km/h",
      "default_value": "60"
    },
    {
      "name": "whistle",
      "secret": true
    }
  ]
}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
