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

func (a *app) instancesCommand() *cobra.Command {
	return a.clientCommand(&cobra.Command{
		Use:   "instances",
		Short: "Show the live instances of the bridge",
		Long: `Show the live instances that share the store, as each has described itself: AGE ago, or
now for the one that answers. CONFIG is a hash of its configuration file, BUCKETS those
that it owns, IN/MIN and OUT/MIN the messages that it accepted and delivered in the last
minute, P99 LATE the lateness of the last five minutes, for the sink that is latest, and
TROUBLE the sinks that it has paused and the sources that do not run.`,
		Example: "  delaybridge instances\n  delaybridge instances -o json",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, s *session, _ []string) error {
		all, err := s.Instances(ctx)
		if err != nil {
			return err
		}
		if !s.forPeople() {
			return s.object(s.answer)
		}
		rows := [][]string{{"INSTANCE", "AGE", "VERSION", "CONFIG", "STARTED", "LISTENERS", "BUCKETS", "IN/MIN", "OUT/MIN", "P99 LATE", "TROUBLE"}}
		for _, one := range all {
			rows = append(rows, instanceRow(one))
		}
		return s.table(rows)
	})
}

func instanceRow(one client.Instance) []string {
	if one.AgeMS == nil {
		return []string{one.Instance, "unknown", "", "", "", "", "", "", "", "", "has not described itself"}
	}
	age := "now"
	if !one.Self {
		age = (time.Duration(*one.AgeMS) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
	var listeners, trouble []string
	for _, name := range slices.Sorted(maps.Keys(one.Listeners)) {
		listeners = append(listeners, name+"="+one.Listeners[name])
	}
	var buckets int
	var in, out uint64
	var late float64
	for _, sink := range one.Sinks {
		buckets, in, out = buckets+sink.Owned, in+sink.Last1m.Accepted, out+sink.Last1m.Delivered
		late = max(late, sink.Last5m.LatenessMS.P99)
		if sink.Paused != "" {
			trouble = append(trouble, "sink "+sink.Sink+" is paused: "+sink.Paused)
		}
	}
	for _, source := range one.Sources {
		if source.Trouble != "" {
			trouble = append(trouble, "source "+source.Source+" is "+source.State+": "+source.Trouble)
		}
	}
	return []string{one.Instance, age, one.Version, one.Config, timeText(one.StartedAt), strings.Join(listeners, " "), strconv.Itoa(buckets),
		count(in), count(out), fmt.Sprintf("%.1fms", late), strings.Join(trouble, "; ")}
}
