package client

import (
	"context"
	"net/url"
	"time"
)

// TimelineQuery selects what Timeline counts. The zero value is the next hour of all
// sinks by minutes.
type TimelineQuery struct {
	Sinks []string      // all if empty
	Step  time.Duration // length of a step; default 1 min
	// From is when the first step begins; zero is the beginning of the present step. To is
	// when the last one ends, which is a whole step; zero is 60 steps later. There may be 240
	// steps.
	From, To time.Time
}

// Timeline is how many of the waiting messages are due when.
type Timeline struct {
	From   time.Time      `json:"from"`
	To     time.Time      `json:"to"`
	StepMS int64          `json:"step_ms"`
	Before int            `json:"before"` // due before From
	After  int            `json:"after"`  // due at To or later
	Steps  []TimelineStep `json:"steps"`
}

// TimelineStep is one step of a Timeline.
type TimelineStep struct {
	At  time.Time `json:"at"` // when the step begins
	Due int       `json:"due"`
}

// Timeline counts the waiting messages by when they are due.
func (c *Client) Timeline(ctx context.Context, q TimelineQuery) (Timeline, error) {
	query := make(url.Values)
	for _, sink := range q.Sinks {
		query.Add("sink", sink)
	}
	if q.Step != 0 {
		query.Set("step", q.Step.String())
	}
	setTime(query, "from", q.From)
	setTime(query, "to", q.To)
	var found Timeline
	err := c.read(ctx, withQuery("/v1/timeline", query), &found)
	return found, err
}
