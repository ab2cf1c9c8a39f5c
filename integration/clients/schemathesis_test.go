//go:build unix

package clients

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var thousands = regexp.MustCompile(`\d{4,} generated, \d{4,} passed`)

// TestSchemathesis sends requests made from the description, good and bad ones, alone and
// in sequences, and checks each answer against it; then batches in NDJSON. It has a fixed
// seed and number of requests; with HTTP_FUZZTIME a new seed, and goes on for that time.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	url, _ := startBridge(t)
	seed, cases, batches := "1", "--max-examples=90", "200"
	if text := os.Getenv("HTTP_FUZZTIME"); text != "" {
		limit, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("HTTP_FUZZTIME: %v", err)
		}
		seed, cases, batches = fmt.Sprint(rand.Uint32()), fmt.Sprintf("--max-time=%.0f", limit.Seconds()), "5000"
		t.Logf("seed %s", seed)
	}
	said := p.run("-m", "schemathesis.cli", "--config-file", absolute(t, pythonPrograms+"schemathesis.toml"),
		"run", url+"/openapi.yaml", "--no-color", "--workers=1", "--seed="+seed, cases)
	_, summary, _ := strings.Cut(said, "= SUMMARY =")
	t.Log(summary)
	if !thousands.MatchString(summary) || !strings.Contains(summary, "✅ Stateful") {
		t.Errorf("not all of it was done:\n%s", said)
	}
	wantSteps(t, p.run(absolute(t, pythonPrograms+"fuzz_ndjson.py"), url, seed, batches), "ndjson")
}
