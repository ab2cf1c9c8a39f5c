package httplistener

import (
	"context"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

// timelineJSON is how many of the waiting messages are due when.
type timelineJSON struct {
	From   string     `json:"from"`
	To     string     `json:"to"`
	StepMS int64      `json:"step_ms"`
	Before int        `json:"before"`
	After  int        `json:"after"`
	Steps  []stepJSON `json:"steps"`
}

type stepJSON struct {
	At  string `json:"at"`
	Due int    `json:"due"`
}

func (s *Server) timeline(w http.ResponseWriter, r *http.Request) error {
	query, err := timelineQuery(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	found, err := s.in.Timeline(ctx, query)
	if err != nil {
		return err
	}
	answer := timelineJSON{From: timeText(found.From), To: timeText(found.To), StepMS: found.Step.Milliseconds(),
		Before: found.Before, After: found.After, Steps: make([]stepJSON, len(found.Due))}
	for n, due := range found.Due {
		answer.Steps[n] = stepJSON{timeText(found.At(n)), due}
	}
	return s.writeJSON(w, http.StatusOK, answer)
}

// timelineQuery reads the parameters; core checks what they select.
func timelineQuery(r *http.Request) (core.TimelineQuery, error) {
	query := core.TimelineQuery{Step: core.DefaultStep}
	given, err := queryOf(r, []string{"sink"}, "step", "from", "to")
	if err != nil {
		return query, err
	}
	query.Sinks = given["sink"]
	if given.Has("step") {
		if query.Step, err = durationField("step", given.Get("step")); err != nil {
			return query, err
		}
	}
	if query.From, err = timeParam(given, "from"); err != nil {
		return query, err
	}
	query.To, err = timeParam(given, "to")
	return query, err
}
