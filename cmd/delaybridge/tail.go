package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/internal/events"
)

func (a *app) tailCommand() *cobra.Command {
	var q client.EventQuery
	var key string
	limit := 0
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print what happens to messages",
		Long: `Print what happens from now on to messages, of the instance that answers: each
instance tells what it does itself. Ends when the instance stops, or if it prints too
slowly; nothing waits for it. Flags select events that have what they ask for.`,
		Example: "  delaybridge tail --sink kafka --state dead\n  delaybridge tail --topic 'orders.*' -o jsonl",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&q.Sinks, "sink", nil, "name of a sink; can be repeated (default: all)")
	flags.StringArrayVar(&q.Events, "state", nil, "event: "+strings.Join(events.All(), ", ")+"; can be repeated (default: all)")
	flags.StringVar(&q.Topic, "topic", "", "topic, or the beginning of one and * (default: all)")
	flags.StringVar(&q.ID, "id", "", "id of a message (default: all)")
	flags.StringVar(&key, "key", "", "key of messages (default: all)")
	flags.BoolVar(&q.Bodies, "bodies", false, "with the bodies of messages, in formats other than table")
	flags.IntVar(&limit, "limit", 0, "number of events after which the command ends (default: never)")
	complete(cmd, "state", events.All()...)
	return a.clientCommand(cmd, func(ctx context.Context, s *session, _ []string) error {
		if cmd.Flags().Changed("key") {
			q.Key = []byte(key)
		}
		printed := 0
		for e, err := range s.Events(ctx, q) {
			if err != nil {
				return err
			}
			if err := s.event(e); err != nil {
				return err
			}
			if printed++; printed == limit {
				break
			}
		}
		return nil
	})
}

// event prints one event.
func (s *session) event(e client.Event) error {
	if !s.forPeople() {
		return s.object(s.answer)
	}
	more := e.Changes
	if e.Attempt > 0 {
		more = append(more, "attempt "+strconv.Itoa(e.Attempt))
	}
	if e.Reason != "" {
		more = append(more, e.Reason)
	}
	if e.Error != "" {
		more = append(more, e.Error)
	}
	return s.table([][]string{{timeText(e.Time), fmt.Sprintf("%-11s", e.Event), e.Sink, e.Topic, e.ID, strings.Join(more, ", ")}})
}
