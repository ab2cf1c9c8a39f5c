package httplistener

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func results(t *testing.T, a answer) []map[string]any {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	var results []map[string]any
	for line := range strings.Lines(a.text) {
		var result map[string]any
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results = append(results, result)
	}
	return results
}

func TestBatchAnswersLineByLine(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(envelopeWith(`"id":"old","body":"x"`))
	lines := []struct {
		line   string
		status float64
		code   any
	}{
		{envelopeWith(`"id":"new"`), 201, nil},
		{`{`, 400, "malformed"},
		{envelopeWith(`"id":"old","body":"x"`), 200, nil},
		{``, 400, "malformed"},
		{envelopeWith(`"id":"old","body":"y"`), 409, "conflict"},
		{envelopeWith(`"id":"*"`), 400, "invalid"},
		{envelopeWith(`"body":"`+strings.Repeat("x", 256<<10+1)) + `"`, 400, "malformed"},
		{envelopeWith(`"body":"` + strings.Repeat("x", 256<<10+1) + `"`), 413, "too_large"},
		{envelopeWith(`"sink":"other"`), 400, "invalid"},
		{envelopeWith(`"id":"new"`), 200, nil},
		{envelopeWith(`"id":"last"`) + "\r", 201, nil},
	}
	var body []string
	for _, l := range lines {
		body = append(body, l.line)
	}
	got := results(t, f.do("POST", "/v1/messages/batch", strings.Join(body, "\n")+"\n", "Content-Type: application/x-ndjson"))
	if len(got) != len(lines) {
		t.Fatalf("%d lines in, %d out", len(lines), len(got))
	}
	for n, l := range lines {
		if got[n]["status"] != l.status || got[n]["code"] != l.code {
			t.Errorf("line %d: got %v, want %v %v", n+1, got[n], l.status, l.code)
		}
		if l.code != nil && got[n]["stored"] != false {
			t.Errorf("line %d: got %v", n+1, got[n])
		}
	}
	if got[0]["id"] != "new" || got[0]["sink"] != "orders" || got[9]["duplicate"] != true {
		t.Errorf("got %v, %v", got[0], got[9])
	}
	for _, id := range []string{"new", "old", "last"} {
		if a := f.do("GET", "/v1/messages/"+id, ""); a.status != 200 {
			t.Errorf("%s: %d", id, a.status)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf(`{"id":"m%d","topic":"t","delay":"1h"}`, n) }
	many := func(n int) string {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintln(&lines, line(i))
		}
		return lines.String()
	}
	t.Run("500", func(t *testing.T) {
		f := newFixture(t, Config{})
		if got := results(t, f.do("POST", "/v1/messages/batch", many(500))); len(got) != 500 || got[499]["id"] != "m499" || got[499]["status"] != 201.0 {
			t.Errorf("got %d, last %v", len(got), got[len(got)-1])
		}
	})
	t.Run("501", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", many(501)), 400, "invalid")
	})
	t.Run("none", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", ""), 400, "invalid")
		if got := results(t, f.do("POST", "/v1/messages/batch", "\n")); len(got) != 1 || got[0]["code"] != "malformed" {
			t.Errorf("an empty line: %v", got)
		}
	})
	t.Run("4 MiB and a byte", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", line(1)+strings.Repeat(" ", 4<<20+1-len(line(1)))), 413, "too_large")
	})
	t.Run("configured", func(t *testing.T) {
		f := newFixture(t, Config{MaxBatch: 2})
		f.refused(f.do("POST", "/v1/messages/batch", many(3)), 400, "invalid")
	})
}
