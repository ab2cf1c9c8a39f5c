//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is a fault that is planted into a copy of the code, to see whether it is
// found: a harness that misses it proves nothing where it is green.
type mutant struct {
	name string
	file string
	from string // stands exactly once in the file
	to   string
	rows []int // in which it is looked for, in this order; each with up to tries seeds
	// test is the arguments of go test that find it where no row can.
	test []string
}

const tries = 20

// mutantResult is what came of one.
type mutantResult struct {
	mutant *mutant
	found  string // by what; empty: not at all
	runs   int
	took   time.Duration
	err    error
}

// tryMutants plants each mutant in turn and reports which were found.
func tryMutants(root string, o options, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "faults-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "delaybridge")
	if err := copyTree(root, copied); err != nil {
		return fmt.Errorf("copy the code: %w", err)
	}
	if err := control(copied, o); err != nil {
		return err
	}
	var results []mutantResult
	for _, m := range allMutants() {
		if !o.wants(m) {
			continue
		}
		r := m.hunt(copied, o)
		fmt.Fprintf(o.log, "%s mutant %s: %s\n", time.Now().Format(time.TimeOnly), m.name, r.line())
		results = append(results, r)
	}
	return reportMutants(stdout, results)
}

func (o options) wants(m *mutant) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), m.name)
}

// control runs the tests that are to find mutants on the code as it is: what
// fails there finds nothing. Of the rows, make faults is the control.
func control(tree string, o options) error {
	var ran []string
	for _, m := range allMutants() {
		name := strings.Join(m.test, " ")
		if m.test == nil || !o.wants(m) || slices.Contains(ran, name) {
			continue
		}
		ran = append(ran, name)
		if text, err := m.goTest(tree); err != nil {
			return fmt.Errorf("go test %s fails without a mutant: %w\n%s", name, err, text)
		}
	}
	return nil
}

// hunt plants the mutant in the tree, looks for it, and puts the tree right again.
func (m *mutant) hunt(tree string, o options) (out mutantResult) {
	began := time.Now()
	out.mutant = m
	defer func() { out.took = time.Since(began) }()
	path := filepath.Join(tree, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		out.err = err
		return out
	}
	if n := strings.Count(string(text), m.from); n != 1 {
		out.err = fmt.Errorf("%s has the text to change %d times", m.file, n)
		return out
	}
	if out.err = os.WriteFile(path, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600); out.err != nil {
		return out
	}
	defer func() { out.err = errors.Join(out.err, os.WriteFile(path, text, 0o600)) }()
	if m.test != nil {
		m.huntByTest(tree, &out)
		return out
	}
	m.huntByRows(tree, o, &out)
	return out
}

func (m *mutant) huntByRows(tree string, o options, out *mutantResult) {
	o.binary = filepath.Join(tree, "mutant")
	if out.err = build(tree, o.binary); out.err != nil {
		return
	}
	o.log = io.Discard
	for n := range tries {
		for _, w := range allRows() {
			if !slices.Contains(m.rows, w.number) {
				continue
			}
			r := play(w, o.seed+uint64(n), o)
			os.RemoveAll(r.dir)
			out.runs++
			switch r.status {
			case failed:
				out.found = fmt.Sprintf("row %d, seed %d, %s", w.number, r.seed, strings.Join(lawsIn(r.findings), " "))
				return
			case broken, skipped:
				out.err = fmt.Errorf("row %d: %s", w.number, r.line())
				return
			}
		}
	}
}

func (m *mutant) huntByTest(tree string, out *mutantResult) {
	text, err := m.goTest(tree)
	out.runs = 1
	failed := failedTest.FindAllStringSubmatch(text, -1)
	switch {
	case len(failed) > 0:
		out.found = fmt.Sprintf("%s (%d failures)", failed[len(failed)-1][1], len(failed))
	case err != nil:
		out.err = fmt.Errorf("go test: %w\n%s", err, text)
	}
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

func (m *mutant) goTest(tree string) (output string, err error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1"}, m.test...)...)
	cmd.Dir = tree
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// lawsIn is the laws that findings break, each once.
func lawsIn(findings []finding) []string {
	var names []string
	for _, f := range findings {
		names = append(names, f.law)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (r mutantResult) line() string {
	switch {
	case r.err != nil:
		return "could not be tried: " + r.err.Error()
	case r.found == "":
		return fmt.Sprintf("NOT FOUND in %d runs", r.runs)
	}
	return fmt.Sprintf("found after %d runs: %s", r.runs, r.found)
}

func reportMutants(w io.Writer, results []mutantResult) error {
	fmt.Fprintf(w, "| mutant | file | found by | runs | s |\n|---|---|---|---|---|\n")
	missed := 0
	for _, r := range results {
		by := r.found
		if by == "" {
			missed++
			by = r.line()
		}
		fmt.Fprintf(w, "| %s | `%s` | %s | %d | %.0f |\n", r.mutant.name, r.mutant.file, by, r.runs, r.took.Seconds())
	}
	fmt.Fprintf(w, "\n%d of %d mutants found\n", len(results)-missed, len(results))
	if missed > 0 {
		return errors.New("some mutants were not found")
	}
	return nil
}

// leftBehind are the folders that a build has no need of.
var leftBehind = []string{".git", ".cache", "bin", "docs", "examples"}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains(leftBehind, name):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
}
