//go:build unix

package main

import (
	"os"
	"path/filepath"
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
