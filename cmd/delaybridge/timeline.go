package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
)

func (a *app) timelineCommand() *cobra.Command {
	var query client.TimelineQuery
	var step, from, to string
	cmd := &cobra.Command{
		Use:   "timeline",
		Short: "Show how many parked messages are due when",
		Long: `Show how many parked messages are due in each of at most 240 steps, as bars that are as
wide as the terminal. Messages that are due before the first step, or after the last,
are counted at the beginning and at the end.`,
		Example: "  delaybridge timeline\n  delaybridge timeline --step 1h --sink orders\n  delaybridge timeline --step 1d --from 2030-01-01T00:00:00Z --to 2030-02-01T00:00:00Z -o json",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&step, "step", "1m", "length of a step, such as 10s, 1h or 1d")
	flags.StringVar(&from, "from", "", "when the first step begins (RFC 3339; default: the present step)")
	flags.StringVar(&to, "to", "", "when the last step ends (RFC 3339; default: 60 steps later)")
	flags.StringArrayVar(&query.Sinks, "sink", nil, "name of a sink to count; can be repeated (default: all)")
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) (err error) {
		if query.Step, err = parsed("step", step, core.ParseDuration); err != nil {
			return err
		}
		if query.Step == 0 {
			return usageError("--step must be more than 0s")
		}
		if query.From, err = parsed("from", from, core.ParseTime); err != nil {
			return err
		}
		if query.To, err = parsed("to", to, core.ParseTime); err != nil {
			return err
		}
		found, err := s.Timeline(ctx, query)
		if err != nil {
			return err
		}
		if !s.forPeople() {
			return s.object(s.answer)
		}
		return s.print(bars(found, cmp.Or(s.width, plainWidth)))
	})
}

// plainWidth is for an output that is no terminal.
const plainWidth = 80

// bars draws the steps of a timeline, in lines of up to width characters.
func bars(found client.Timeline, width int) string {
	most := 1
	for _, step := range found.Steps {
		most = max(most, step.Due)
	}
	digits := len(strconv.Itoa(max(most, found.Before, found.After)))
	room := max(width-timeWidth-digits-2*gap, 1)
	var out strings.Builder
	line := func(label string, n, bar int) {
		fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%-*s  %*d  %s", timeWidth, label, digits, n, strings.Repeat("█", bar)), " "))
	}
	line("before", found.Before, 0)
	for _, step := range found.Steps {
		bar := int(int64(step.Due) * int64(room) / int64(most))
		line(timeText(step.At), step.Due, max(bar, min(step.Due, 1)))
	}
	line("after", found.After, 0)
	return out.String()
}

const timeWidth = len("2006-01-02T15:04:05.000Z") // of timeText
