package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuideIsExamples: every piece of code in the guide stands in an example, so
// that it compiles, and mostly runs.
func TestGuideIsExamples(t *testing.T) {
	files, err := filepath.Glob("*delay/example_test.go")
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v, %v", files, err)
	}
	var examples strings.Builder
	for _, file := range append(files, "example_test.go") {
		examples.WriteString(unindented(t, file))
	}
	pieces := 0
	for piece := range strings.SplitSeq(codeOf(t, "../docs/client.md"), "\n\n") {
		if piece = strings.TrimSpace(piece); piece == "" {
			continue
		}
		if pieces++; !strings.Contains(examples.String(), piece) {
			t.Errorf("no example has:\n%s", piece)
		}
	}
	if pieces < 8 {
		t.Errorf("found %d pieces of code", pieces)
	}
}

// unindented is a file's text with no white space at the beginning of lines.
func unindented(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}

// codeOf returns the indented lines of a guide, unindented, and empty ones for
// the others.
func codeOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "    ") {
			line = "\n"
		}
		b.WriteString(strings.TrimLeft(line, " \t"))
		if line == "\n" {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
