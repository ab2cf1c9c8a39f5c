//go:build unix

package integration

import (
	"encoding/json"
	"testing"
)

// withSources adds ways in that read from brokers to a configuration.
func withSources(t *testing.T, config string, configured map[string]sourceConfig) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		t.Fatal(err)
	}
	all["sources"] = configured
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type sourceConfig struct {
	Type   string         `json:"type"`
	Config map[string]any `json:"config"`
}
