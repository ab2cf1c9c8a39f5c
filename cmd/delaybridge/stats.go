package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
)

func (a *app) statsCommand() *cobra.Command {
	var f statsFlags
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show counts of parked messages and of what the bridge has done",
		Long: `Show, for each sink, how many messages are parked in the store, and what all live
instances, or the one that --instance names, have done since they started (ACCEPTED to
RETRIED), how many messages they accepted and delivered in the last minute (IN/MIN and
OUT/MIN), and the lateness of the last five minutes. Below are the sources of these
instances, and the DETAILS that sinks report, such as the state of a plugin.

With --watch, the counts of the sinks are shown again and again until Ctrl-C. On a
terminal the table is drawn anew each time.`,
		Example: "  delaybridge stats\n  delaybridge stats --watch\n  delaybridge stats --instance web-1-4711-k3v9qa -o json",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.instance, "instance", "", "name of the instance whose work is shown; see delaybridge instances (default: all)")
	flags.BoolVar(&f.watch, "watch", false, "show the counts again and again, until Ctrl-C")
	flags.DurationVar(&f.interval, "interval", time.Second, "how often --watch asks")
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		if f.interval < minInterval {
			return usageError(fmt.Sprintf("--interval must be at least %s", minInterval))
		}
		if f.watch {
			return a.watchStats(ctx, s, f)
		}
		all, err := s.Stats(ctx, f.instance)
		if err != nil {
			return err
		}
		return s.stats(all)
	})
}

// statsFlags say what stats shows.
type statsFlags struct {
	instance string
	watch    bool
	interval time.Duration
}

const minInterval = 100 * time.Millisecond

func (s *session) stats(all client.Stats) error {
	if !s.forPeople() {
		return s.object(s.answer)
	}
	if err := s.table(sinkRows(all.Sinks)); err != nil {
		return err
	}
	if all.Unreported > 0 {
		if err := s.print(fmt.Sprintf("\nNot counted, as not described: %s.\n", counted(all.Unreported, "live instance"))); err != nil {
			return err
		}
	}
	if err := s.sources(all.Sources); err != nil {
		return err
	}
	return s.details(all.Sinks)
}

func sinkRows(sinks []client.SinkStats) [][]string {
	rows := [][]string{{"SINK", "PARKED", "DUE", "DEAD", "BUCKETS", "OWNED", "NEXT DUE", "ACCEPTED", "DELIVERED", "RETRIED", "IN/MIN", "OUT/MIN", "P50 LATE", "P99 LATE", "PAUSED"}}
	for _, one := range sinks {
		did, late := one.SinceStart, one.Last5m.LatenessMS
		rows = append(rows, []string{one.Sink, strconv.Itoa(one.Scheduled), strconv.Itoa(one.Due), strconv.Itoa(one.Dead),
			strconv.Itoa(one.Buckets), strconv.Itoa(one.Owned), timeText(one.NextDue), count(did.Accepted), count(did.Delivered), count(did.Retried),
			count(one.Last1m.Accepted), count(one.Last1m.Delivered), fmt.Sprintf("%.1fms", late.P50), fmt.Sprintf("%.1fms", late.P99), one.Paused})
	}
	return rows
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// sources prints what the sources of the instances have done, if there are any.
func (s *session) sources(all []client.SourceStats) error {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"SOURCE", "INSTANCE", "PARKED", "DUPLICATES", "REJECTED", "SKIPPED", "RETRIED", "LAG", "STATE", "TROUBLE"}}
	for _, i := range all {
		lag := "unknown"
		if i.Lag != nil {
			lag = strconv.FormatInt(*i.Lag, 10)
		}
		rows = append(rows, []string{i.Source, i.Instance, count(i.Parked), count(i.Duplicates), count(i.Rejected),
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
