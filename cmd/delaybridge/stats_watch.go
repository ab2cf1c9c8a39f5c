package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/client"
)

// What a terminal does: go to the top left, erase the rest of the line, and of the screen.
const (
	cursorHome  = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseScreen = "\x1b[J"
)

// watchStats shows the counts again and again until ctx ends, which is no error. A bridge
// that does not answer for a time is reported and asked again, unless it is the first time.
func (a *app) watchStats(ctx context.Context, s *session, f statsFlags) error {
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		all, err := s.Stats(ctx, f.instance)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			a.report(explain(err, ""), "")
		default:
			if err := s.watched(all, f.interval, first); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watched shows what was answered this time.
func (s *session) watched(all client.Stats, interval time.Duration, first bool) error {
	if !s.forPeople() {
		return s.object(s.answer)
	}
	rows, now := sinkRows(all.Sinks), time.Now().Format(time.TimeOnly)
	if s.width == 0 {
		return s.watchLines(now, rows, first)
	}
	var screen bytes.Buffer
	drawn := printer{w: &screen, width: s.width}
	if err := drawn.table(rows); err != nil {
		return err
	}
	title := fmt.Sprintf("%s  %s, every %s, Ctrl-C ends\n\n", now, counted(all.Instances+all.Unreported, "instance"), interval)
	return s.print(cursorHome + strings.ReplaceAll(title+screen.String(), "\n", eraseLine+"\n") + eraseScreen)
}

// watchLines prints a line for each sink, below those that are there.
func (s *session) watchLines(now string, rows [][]string, first bool) error {
	if !first {
		rows = rows[1:]
	}
	for n, row := range rows {
		at := now
		if first && n == 0 {
			at = "TIME"
		}
		for n := range row {
			row[n] = escape(row[n])
		}
		if err := s.print(at + "\t" + strings.Join(row, "\t") + "\n"); err != nil {
			return err
		}
	}
	return nil
}
