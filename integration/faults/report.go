//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// summary is what came of a row with all its seeds.
type summary struct {
	row      *row
	seeds    []uint64
	statuses map[status]int
	counts   counts
	faults   int
	took     time.Duration
	voids    int
	reason   string // of the first run that did not pass
}

// report prints results as a Markdown table, a line for each row, and behind it
// what was found.
func report(w io.Writer, commit string, results []result) {
	fmt.Fprintf(w, "\ncommit %s\n\n", commit)
	fmt.Fprintln(w, "| row | fault | level | seeds | time | faults | accepted | repeats | unknown | result |")
	fmt.Fprintln(w, "|--:|---|---|---|--:|--:|--:|--:|--:|---|")
	for _, s := range summarise(results) {
		star := ""
		if s.row.quick {
			star = "*"
		}
		fmt.Fprintf(w, "| %d%s | **%s**: %s | %s | %s | %s | %d | %d | %d | %d | %s |\n", s.row.number, star, s.row.name, s.row.fault, s.row.level,
			s.span(), s.took.Round(time.Second), s.faults, s.counts.accepted, s.counts.repeats, s.counts.unknown, s.line())
	}
	for _, r := range results {
		r.explain(w)
	}
}

func summarise(results []result) []*summary {
	var all []*summary
	for _, r := range results {
		if len(all) == 0 || all[len(all)-1].row != r.row {
			all = append(all, &summary{row: r.row, statuses: map[status]int{}})
		}
		s := all[len(all)-1]
		s.seeds = append(s.seeds, r.seed)
		s.statuses[r.status]++
		s.faults, s.took = s.faults+r.faults, s.took+r.took
		s.voids += r.voids
		s.counts.accepted += r.counts.accepted
		s.counts.repeats += r.counts.repeats
		s.counts.unknown += r.counts.unknown
		if s.reason == "" && (r.status != passed || r.reason != "") {
			s.reason = r.line()
		}
	}
	return all
}

// span is the seeds, of which one follows the other.
func (s *summary) span() string {
	if len(s.seeds) == 1 {
		return fmt.Sprint(s.seeds[0])
	}
	return fmt.Sprintf("%d–%d", s.seeds[0], s.seeds[len(s.seeds)-1])
}

func (s *summary) line() string {
	text := string(passed)
	if s.statuses[passed] < len(s.seeds) || s.reason != "" {
		text = fmt.Sprintf("%d of %d passed; %s", s.statuses[passed], len(s.seeds), s.reason)
	}
	if s.voids > 0 {
		text += fmt.Sprintf(" (%d void runs were played again)", s.voids)
	}
	return text
}

func (r result) line() string {
	if r.reason == "" {
		return string(r.status)
	}
	first, _, _ := strings.Cut(r.reason, "\n")
	return fmt.Sprintf("%s: %s", r.status, first)
}

// explain prints how to see the run again, if there is something to see.
func (r result) explain(w io.Writer) {
	if r.status == passed || r.status == skipped {
		return
	}
	fmt.Fprintf(w, "\nrow %d, seed %d: %s\n  go run ./integration/faults -row %d -seed %d\n  ledger and logs: %s\n  %s\n",
		r.row.number, r.seed, r.status, r.row.number, r.seed, r.dir, r.reason)
	for _, f := range r.findings[:min(len(r.findings), maxFindings)] {
		fmt.Fprintf(w, "  %s: %s\n", f.law, f.text)
	}
	if more := len(r.findings) - maxFindings; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

// passing tells whether all runs passed or could not be tried.
func passing(results []result) bool {
	for _, r := range results {
		if r.status != passed && r.status != skipped {
			return false
		}
	}
	return true
}

func total(results []result) (took time.Duration, accepted, faults int) {
	for _, r := range results {
		took, accepted, faults = took+r.took, accepted+r.counts.accepted, faults+r.faults
	}
	return took, accepted, faults
}
