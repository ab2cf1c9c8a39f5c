package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with the file.
type Fault struct {
	File         string
	Line, Column int // from 1, in characters
	Text         string
	Code         string // in one word, such as unknown-key
	// Source is the line at fault without its comment, whatever may be a secret
	// being ***, as in Text; empty if there is nothing to show.
	Source string
	caret  int
}

// String is the fault in up to three lines: what, the source, and a caret.
func (f Fault) String() string {
	s := fmt.Sprintf("%s:%d:%d: error: %s [%s]", f.File, f.Line, f.Column, f.Text, f.Code)
	if f.Source == "" {
		return s
	}
	return s + "\n    " + f.Source + "\n    " + indent(f.Source, f.caret) + "^"
}

// indent is as wide as the first n characters of line, with the same tabs.
func indent(line string, n int) string {
	runes := []rune(line)
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(runes[:min(n, len(runes))]))
}

// Faults is every fault of a file, in the order of the file. It is never empty
// as an error.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for n, fault := range f {
		lines[n] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// fault is a Fault before it is rendered: render needs to know every value that
// may be shown, which is known only at the end.
type fault struct {
	line, column int
	code, text   string
}

// render returns nil for no faults.
func (s *source) render(faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b fault) int {
		return cmp.Or(a.line-b.line, a.column-b.column)
	})
	out, cleaner := make(Faults, 0, len(faults)), s.cleaner()
	for _, f := range slices.Compact(faults) {
		text, caret := s.excerpt(f.line, f.column)
		out = append(out, Fault{File: s.name, Line: f.line, Column: f.column, Text: cleaner.Replace(f.text), Code: f.code, Source: text, caret: caret})
	}
	return out
}
