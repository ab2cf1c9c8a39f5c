package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// stats is what GET /v1/stats answers.
type stats struct {
	Durability string        `json:"durability"`
	Sinks      []sinkStats   `json:"sinks"`
	Sources    []sourceStats `json:"sources"`
}

type sinkStats struct {
	Sink       string            `json:"sink"`
	Scheduled  int               `json:"scheduled"`
	Due        int               `json:"due"`
	Dead       int               `json:"dead"`
	Buckets    int               `json:"buckets"`
	Owned      int               `json:"owned"`
	NextDue    string            `json:"next_due"`
	Paused     string            `json:"paused"`
	Details    map[string]string `json:"details"`
	SinceStart struct {
		Accepted   int `json:"accepted"`
		Delivered  int `json:"delivered"`
		Retried    int `json:"retried"`
		LatenessMS struct {
			P50 float64 `json:"p50"`
			P99 float64 `json:"p99"`
		} `json:"lateness_ms"`
	} `json:"since_start"`
}

func (a *app) statsCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:   "stats",
		Short: "Show counts of parked messages and of what the bridge has done",
		Long: `Show, for each sink, how many messages are parked in the store, and what the instance
that answers has done since it started (ACCEPTED to RETRIED). Lateness (P50 and P99) is
that of the last five minutes. Below are the sources of that instance, and the DETAILS
that sinks report, such as the state of a plugin.`,
		Example: "  delaybridge stats\n  delaybridge stats -o json",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		answer, err := s.call(ctx, http.MethodGet, "/v1/stats", nil, nil)
		if err != nil {
			return err
		}
		if s.json {
			return s.raw(answer)
		}
		var all stats
		if err := json.Unmarshal(answer, &all); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if err := s.table(all.rows()); err != nil {
			return err
		}
		if err := s.sources(all.Sources); err != nil {
			return err
		}
		return s.details(all.Sinks)
	})
}

type sourceStats struct {
	Source     string `json:"source"`
	Parked     int    `json:"parked"`
	Duplicates int    `json:"duplicates"`
	Rejected   int    `json:"rejected"`
	Skipped    int    `json:"skipped"`
	Retried    int    `json:"retried"`
	Lag        *int   `json:"lag"`
	State      string `json:"state"`
	Trouble    string `json:"trouble"`
}

// sources prints what the sources of the instance have done, if it has any.
func (s *session) sources(all []sourceStats) error {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"SOURCE", "PARKED", "DUPLICATES", "REJECTED", "SKIPPED", "RETRIED", "LAG", "STATE", "TROUBLE"}}
	for _, i := range all {
		lag := "unknown"
		if i.Lag != nil {
			lag = strconv.Itoa(*i.Lag)
		}
		rows = append(rows, []string{i.Source, strconv.Itoa(i.Parked), strconv.Itoa(i.Duplicates), strconv.Itoa(i.Rejected),
			strconv.Itoa(i.Skipped), strconv.Itoa(i.Retried), lag, i.State, shorten(i.Trouble, 120)})
	}
	if err := s.print("\n"); err != nil {
		return err
	}
	return s.table(rows)
}

// details prints what sinks tell about themselves, if any does.
func (s *session) details(sinks []sinkStats) error {
	rows := [][]string{{"SINK", "DETAILS"}}
	for _, one := range sinks {
		var details []string
		for _, name := range slices.Sorted(maps.Keys(one.Details)) {
			details = append(details, shorten(name+"="+one.Details[name], 80))
		}
		if len(details) > 0 {
			rows = append(rows, []string{one.Sink, strings.Join(details, "  ")})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	if err := s.print("\n"); err != nil {
		return err
	}
	return s.table(rows)
}

func (s *stats) rows() [][]string {
	rows := [][]string{{"SINK", "PARKED", "DUE", "DEAD", "BUCKETS", "OWNED", "NEXT DUE", "ACCEPTED", "DELIVERED", "RETRIED", "P50 LATE", "P99 LATE", "PAUSED"}}
	for _, one := range s.Sinks {
		did := one.SinceStart
		row := []string{one.Sink}
		for _, n := range []int{one.Scheduled, one.Due, one.Dead, one.Buckets, one.Owned} {
			row = append(row, strconv.Itoa(n))
		}
		row = append(row, one.NextDue)
		for _, n := range []int{did.Accepted, did.Delivered, did.Retried} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1fms", did.LatenessMS.P50), fmt.Sprintf("%.1fms", did.LatenessMS.P99), shorten(one.Paused, 60)))
	}
	return rows
}
