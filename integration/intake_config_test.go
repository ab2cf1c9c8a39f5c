//go:build unix

package integration

import (
	"encoding/json"
	"testing"
)

// withIntakes adds ways in that read from brokers to a configuration.
func withIntakes(t *testing.T, config string, intakes map[string]intakeConfig) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		t.Fatal(err)
	}
	all["intakes"] = intakes
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type intakeConfig struct {
	Type   string         `json:"type"`
	Config map[string]any `json:"config"`
}
