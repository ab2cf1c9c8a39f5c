package plugin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogLinesAreWhatHostsRead(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLogHandler(&out)).With("sink", "s")
	log.Warn("slow\nbroker", "took", 3*time.Second, "@message", 5, "time", "noon", "level", 3, slog.Group("g", "@x", 1))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(logTime, line["@timestamp"].(string)); err != nil {
		t.Error(err)
	}
	delete(line, "@timestamp")
	want := map[string]any{"@level": "warn", "@message": "slow\nbroker", "sink": "s", "took": 3e9, "message": 5.0,
		"time": "noon", "level": 3.0, "g": map[string]any{"@x": 1.0}}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%q is not one line", out.Bytes())
	}
}

func TestHostLevel(t *testing.T) {
	for level, want := range map[slog.Level]string{-8: "trace", -4: "debug", -1: "debug", 0: "info", 2: "info", 4: "warn", 8: "error", 12: "error"} {
		if got := hostLevel(level); got != want {
			t.Errorf("level %d is %s, want %s", level, got, want)
		}
	}
}
