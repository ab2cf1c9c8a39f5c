//go:build unix

// Command faults tries delaybridge under faults: it runs real bridges on a real
// Redis, kills, stops, fills and cuts them by a seed while producers work, and
// keeps an account outside of the system of everything that was sent, answered
// and delivered. From that it reports whether the contract was kept.
//
//	go run ./integration/faults                     the short profile
//	go run ./integration/faults -all -seeds 20      every row, 20 seeds each
//	go run ./integration/faults -row 3 -seed 42     one run again
//	go run ./integration/faults -mutants            does it find planted faults?
//
// docs/reliability.md says what is tried and what it has found.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := execute(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	rows    []int
	seed    uint64
	seeds   int
	jobs    int
	all     bool
	soak    time.Duration
	mutants bool
	only    string // names of mutants
	binary  string
	old     string // a commit
	log     io.Writer
}

func readOptions(args []string, stderr io.Writer) (options, error) {
	o := options{log: stderr}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	rows := flags.String("row", "", "numbers of the rows to run, separated by commas; empty: the short profile")
	flags.Uint64Var(&o.seed, "seed", 1, "first seed")
	flags.IntVar(&o.seeds, "seeds", 1, "how many seeds for each row")
	flags.IntVar(&o.jobs, "jobs", 1, "how many runs at a time; each has servers of its own")
	flags.DurationVar(&o.soak, "soak", 0, "how long row 42 lasts, which -all leaves out unless this is given; 0: 30m")
	flags.BoolVar(&o.all, "all", false, "every row")
	flags.BoolVar(&o.mutants, "mutants", false, "plant faults in copies of the code and see whether they are found")
	flags.StringVar(&o.only, "only", "", "with -mutants: names of mutants, separated by commas")
	flags.StringVar(&o.old, "old", "HEAD~12", "the commit of the earlier bridges of row 38")
	flags.StringVar(&o.binary, "binary", "", "a delaybridge that was built with -tags failpoints; empty: build it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for text := range strings.SplitSeq(*rows, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return o, fmt.Errorf("row %q is not a number", text)
		}
		o.rows = append(o.rows, n)
	}
	return o, nil
}

var errFailed = errors.New("not all runs passed")

func execute(args []string, stdout, stderr io.Writer) error {
	o, err := readOptions(args, stderr)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if o.mutants {
		return tryMutants(root, o, stdout)
	}
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	if o.binary == "" {
		dir, err := os.MkdirTemp("", "faults-binary-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.binary = filepath.Join(dir, "delaybridge")
		if err := build(root, o.binary); err != nil {
			return err
		}
	}
	results := playAll(chosen, o)
	report(stdout, commit(root), results)
	took, accepted, struck := total(results)
	fmt.Fprintf(stdout, "\n%d runs in %s: %d messages accepted under %d faults\n", len(results), took.Round(time.Second), accepted, struck)
	if !passing(results) {
		return errFailed
	}
	return nil
}

// playAll runs every row with every seed, and returns the results in that order.
func playAll(chosen []*row, o options) []result {
	var results []result
	for _, w := range chosen {
		for n := range o.seeds {
			if n == 0 || w.leftOut == "" {
				results = append(results, result{row: w, seed: o.seed + uint64(n)})
			}
		}
	}
	var workers sync.WaitGroup
	free := make(chan struct{}, max(1, o.jobs))
	for n := range results {
		free <- struct{}{}
		workers.Go(func() {
			defer func() { <-free }()
			results[n] = playUntilItTells(results[n].row, results[n].seed, o)
		})
	}
	workers.Wait()
	return results
}

// mostVoid is how often a run is void at most before it stays so.
const mostVoid = 3

// playUntilItTells plays a row with a seed again while that was void, or the
// harness failed.
func playUntilItTells(w *row, seed uint64, o options) result {
	for voids := 1; ; voids++ {
		r := play(w, seed, o)
		fmt.Fprintf(o.log, "%s row %d seed %d: %s (%.0f s, %d faults, %d accepted, %d repeats, %d unknown)\n", time.Now().Format(time.TimeOnly),
			w.number, seed, r.line(), r.took.Seconds(), r.faults, r.counts.accepted, r.counts.repeats, r.counts.unknown)
		if r.status != void && r.status != broken || voids == mostVoid {
			r.voids = voids - 1
			return r
		}
	}
}

// choose is the rows that the options name.
func choose(o options) ([]*row, error) {
	var chosen []*row
	for _, w := range allRows() {
		wanted := o.all && (!w.long || o.soak > 0) || len(o.rows) == 0 && w.quick
		for _, n := range o.rows {
			wanted = wanted || n == w.number
		}
		if wanted {
			chosen = append(chosen, w)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no such row")
	}
	return chosen, nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build makes a bridge that can fail on demand.
func build(root, path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "failpoints", "-o", path, "./cmd/delaybridge")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build delaybridge: %w\n%s", err, out)
	}
	return nil
}

// commit is what the code is, with a + if it has been changed since.
func commit(root string) string {
	cmd := exec.Command("git", "describe", "--always", "--dirty=+")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
