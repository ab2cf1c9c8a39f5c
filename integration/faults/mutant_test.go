//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMutantsFit: the code moves on, and the table must with it.
func TestMutantsFit(t *testing.T) {
	var numbers []int
	for _, w := range allRows() {
		if slices.Contains(numbers, w.number) {
			t.Errorf("two rows have number %d", w.number)
		}
		numbers = append(numbers, w.number)
	}
	for _, m := range allMutants() {
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.from); n != 1 {
			t.Errorf("%s: %s has the text to change %d times", m.name, m.file, n)
		}
		for _, n := range m.rows {
			if !slices.Contains(numbers, n) {
				t.Errorf("%s: there is no row %d", m.name, n)
			}
		}
		if (len(m.rows) == 0) == (len(m.test) == 0) {
			t.Errorf("%s: needs either rows or a test to be looked for with", m.name)
		}
	}
}

// TestLogPatternsFit: rows that look for a line in the log look for one that the code has.
func TestLogPatternsFit(t *testing.T) {
	for _, p := range []struct {
		pattern    *regexp.Regexp
		file, text string
	}{
		{lostLease, "core/redisstore/serve.go", "leases of buckets lost because they were not renewed in time"},
		{metNewer, "core/redisstore/take.go", "records of a newer format are due and wait, because no instance reads them"},
		{leftOut, "interceptors/source/parker.go", "record skipped, because it can't be parked"},
	} {
		code, err := os.ReadFile(filepath.Join("..", "..", p.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(code), `"`+p.text) {
			t.Errorf("%s does not log %q", p.file, p.text)
		}
		if line := `level=WARN msg="` + p.text + `" format=2`; !p.pattern.MatchString(line) {
			t.Errorf("%s does not match %s", p.pattern, line)
		}
	}
}
