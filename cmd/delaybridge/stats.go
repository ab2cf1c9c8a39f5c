package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

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
		all, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		if !s.forPeople() {
			return s.object(s.answer)
		}
		if err := s.table(sinkRows(all.Sinks)); err != nil {
			return err
		}
		if err := s.sources(all.Sources); err != nil {
			return err
		}
		return s.details(all.Sinks)
	})
}

func sinkRows(sinks []client.SinkStats) [][]string {
	rows := [][]string{{"SINK", "PARKED", "DUE", "DEAD", "BUCKETS", "OWNED", "NEXT DUE", "ACCEPTED", "DELIVERED", "RETRIED", "P50 LATE", "P99 LATE", "PAUSED"}}
	for _, one := range sinks {
		did := one.SinceStart
		rows = append(rows, []string{one.Sink, strconv.Itoa(one.Scheduled), strconv.Itoa(one.Due), strconv.Itoa(one.Dead),
			strconv.Itoa(one.Buckets), strconv.Itoa(one.Owned), timeText(one.NextDue), count(did.Accepted), count(did.Delivered), count(did.Retried),
			fmt.Sprintf("%.1fms", did.LatenessMS.P50), fmt.Sprintf("%.1fms", did.LatenessMS.P99), one.Paused})
	}
	return rows
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// sources prints what the sources of the instance have done, if it has any.
func (s *session) sources(all []client.SourceStats) error {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"SOURCE", "PARKED", "DUPLICATES", "REJECTED", "SKIPPED", "RETRIED", "LAG", "STATE", "TROUBLE"}}
	for _, i := range all {
		lag := "unknown"
		if i.Lag != nil {
			lag = strconv.FormatInt(*i.Lag, 10)
		}
		rows = append(rows, []string{i.Source, count(i.Parked), count(i.Duplicates), count(i.Rejected),
			count(i.Skipped), count(i.Retried), lag, i.State, i.Trouble})
	}
	if err := s.print("\n"); err != nil {
		return err
	}
	return s.table(rows)
}

// details prints what sinks tell about themselves, if any does.
func (s *session) details(sinks []client.SinkStats) error {
	rows := [][]string{{"SINK", "DETAILS"}}
	for _, one := range sinks {
		var details []string
		for _, name := range slices.Sorted(maps.Keys(one.Details)) {
			details = append(details, name+"="+one.Details[name])
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
