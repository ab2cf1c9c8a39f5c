package httplistener

import (
	"context"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

type statsJSON struct {
	Durability string       `json:"durability"`
	Sinks      []sinkJSON   `json:"sinks"`
	Sources    []sourceJSON `json:"sources,omitempty"`
}

// sourceJSON is what one source of this instance has done since it started; lag
// is what waits in its source, and is left out if it is unknown. What holds it up
// is in trouble, if anything does.
type sourceJSON struct {
	Source     string `json:"source"`
	Parked     uint64 `json:"parked"`
	Duplicates uint64 `json:"duplicates"`
	Rejected   uint64 `json:"rejected"`
	Skipped    uint64 `json:"skipped,omitempty"`
	Retried    uint64 `json:"retried"`
	Lag        *int64 `json:"lag,omitempty"`
	State      string `json:"state"`
	Trouble    string `json:"trouble,omitempty"`
	Since      string `json:"trouble_since,omitempty"`
}

// sinkJSON is what is stored for one sink, by all instances; since_start is
// what this instance has done, and details is what its sink reports about itself.
type sinkJSON struct {
	Sink        string            `json:"sink"`
	Scheduled   int               `json:"scheduled"`
	Due         int               `json:"due"`
	Dead        int               `json:"dead"`
	Buckets     int               `json:"buckets"`
	Owned       int               `json:"owned"`
	NextDue     string            `json:"next_due,omitempty"`
	Paused      string            `json:"paused,omitempty"`
	PausedSince string            `json:"paused_since,omitempty"`
	Details     map[string]string `json:"details,omitempty"`
	SinceStart  totalsJSON        `json:"since_start"`
}

type totalsJSON struct {
	Accepted    uint64       `json:"accepted"`
	Republished uint64       `json:"republished"`
	Repeated    uint64       `json:"repeated"`
	Refused     uint64       `json:"refused"`
	Delivered   uint64       `json:"delivered"`
	Retried     uint64       `json:"retried"`
	Unknown     uint64       `json:"unknown"`
	Dead        uint64       `json:"dead"`
	Expired     uint64       `json:"expired"`
	LatenessMS  latenessJSON `json:"lateness_ms"`
}

type latenessJSON struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request) error {
	if _, err := queryOf(r, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	reports, err := s.in.Stats(ctx)
	if err != nil {
		return err
	}
	answer := statsJSON{Durability: s.in.Durability(), Sinks: make([]sinkJSON, len(reports))}
	for n, report := range reports {
		answer.Sinks[n] = newSinkJSON(report)
	}
	if s.config.Sources != nil {
		for _, report := range s.config.Sources() {
			answer.Sources = append(answer.Sources, newSourceJSON(report))
		}
	}
	return s.writeJSON(w, http.StatusOK, answer)
}

func newSourceJSON(r core.SourceReport) sourceJSON {
	i := sourceJSON{Source: r.Source, Parked: r.Parked, Duplicates: r.Duplicates, Rejected: r.Rejected, Skipped: r.Skipped,
		Retried: r.Retried, State: r.State(), Trouble: r.Trouble, Since: timeText(r.Since)}
	if r.Lag >= 0 {
		i.Lag = &r.Lag
	}
	return i
}

func newSinkJSON(r core.SinkReport) sinkJSON {
	return sinkJSON{
		Sink: r.Sink, Scheduled: r.Scheduled, Due: r.Due, Dead: r.SinkStats.Dead, Buckets: r.Buckets, Owned: r.Owned,
		NextDue: timeText(r.NextDue), Paused: r.Paused, PausedSince: timeText(r.PausedSince), Details: r.Details,
		SinceStart: totalsJSON{
			Accepted: r.Accepted, Republished: r.Republished, Repeated: r.Repeated, Refused: r.Refused, Delivered: r.Delivered,
			Retried: r.Retried, Unknown: r.Unknown, Dead: r.Totals.Dead, Expired: r.Expired,
			LatenessMS: latenessJSON{milliseconds(r.LatenessP50), milliseconds(r.LatenessP99), milliseconds(r.LatenessMax)},
		},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
