package httplistener

import (
	"context"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// statsJSON is what is stored, and what all live instances have done, or one of them.
type statsJSON struct {
	Durability string       `json:"durability"`
	Instances  int          `json:"instances"`
	Unreported int          `json:"unreported,omitempty"`
	Sinks      []sinkJSON   `json:"sinks"`
	Sources    []sourceJSON `json:"sources,omitempty"`
}

// sinkJSON is what is stored for one sink, and the work of the instances asked for;
// details is what the sink of the instance that answers reports about itself.
type sinkJSON struct {
	Sink      string            `json:"sink"`
	Scheduled int               `json:"scheduled"`
	Due       int               `json:"due"`
	Retrying  int               `json:"retrying"`
	Dead      int               `json:"dead"`
	Buckets   int               `json:"buckets"`
	NextDue   string            `json:"next_due,omitempty"`
	Details   map[string]string `json:"details,omitempty"`
	workJSON
}

// workJSON is what instances do for one sink.
type workJSON struct {
	Owned       int        `json:"owned"`
	InFlight    int64      `json:"in_flight"`
	Paused      string     `json:"paused,omitempty"`
	PausedSince string     `json:"paused_since,omitempty"`
	SinceStart  countsJSON `json:"since_start"`
	Last1m      recentJSON `json:"last_1m"`
	Last5m      recentJSON `json:"last_5m"`
	Last60m     recentJSON `json:"last_60m"`
}

type countsJSON struct {
	Accepted    uint64 `json:"accepted"`
	Republished uint64 `json:"republished"`
	Repeated    uint64 `json:"repeated"`
	Refused     uint64 `json:"refused"`
	Delivered   uint64 `json:"delivered"`
	Retried     uint64 `json:"retried"`
	Unknown     uint64 `json:"unknown"`
	Dead        uint64 `json:"dead"`
	Expired     uint64 `json:"expired"`
}

type recentJSON struct {
	countsJSON
	LatenessMS latenessJSON `json:"lateness_ms"`
}

type latenessJSON struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sourceJSON is what one source of one instance has done since that started; lag
// is what waits in its source, and lag_ms how old that is. They are left out if they are
// unknown. What holds it up is in trouble, if anything does.
type sourceJSON struct {
	Instance   string `json:"instance,omitempty"`
	Source     string `json:"source"`
	Parked     uint64 `json:"parked"`
	Duplicates uint64 `json:"duplicates"`
	Rejected   uint64 `json:"rejected"`
	Skipped    uint64 `json:"skipped,omitempty"`
	Retried    uint64 `json:"retried"`
	Lag        *int64 `json:"lag,omitempty"`
	LagMS      *int64 `json:"lag_ms,omitempty"`
	State      string `json:"state"`
	Trouble    string `json:"trouble,omitempty"`
	Since      string `json:"trouble_since,omitempty"`
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request) error {
	given, err := queryOf(r, nil, "instance")
	if err != nil {
		return err
	}
	if given.Has("instance") && given.Get("instance") == "" {
		return core.Invalidf("instance", "is empty")
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	stats, err := s.in.Stats(ctx, given.Get("instance"))
	if err != nil {
		return err
	}
	answer := statsJSON{Durability: s.in.Durability(), Instances: stats.Instances, Unreported: stats.Unreported,
		Sinks: make([]sinkJSON, len(stats.Sinks)), Sources: newSourcesJSON(stats.Sources)}
	for n, report := range stats.Sinks {
		answer.Sinks[n] = newSinkJSON(report)
	}
	return s.writeJSON(w, http.StatusOK, answer)
}

func newSourcesJSON(reports []core.SourceReport) []sourceJSON {
	sources := make([]sourceJSON, len(reports))
	for n, r := range reports {
		sources[n] = sourceJSON{Instance: r.Instance, Source: r.Source, Parked: r.Parked, Duplicates: r.Duplicates, Rejected: r.Rejected,
			Skipped: r.Skipped, Retried: r.Retried, State: r.State(), Trouble: r.Trouble, Since: timeText(r.Since)}
		if r.Lag >= 0 {
			sources[n].Lag = &r.Lag
		}
		if age := r.LagTime.Milliseconds(); r.LagTime >= 0 {
			sources[n].LagMS = &age
		}
	}
	return sources
}

func newSinkJSON(r core.SinkReport) sinkJSON {
	j := sinkJSON{Sink: r.Sink, Scheduled: r.Scheduled, Due: r.Due, Retrying: r.Retrying, Dead: r.Dead, Buckets: r.Buckets,
		NextDue: timeText(r.NextDue), Details: r.Work.Details, workJSON: newWorkJSON(r.Work)}
	j.Owned = r.Owned
	return j
}

func newWorkJSON(w core.Work) workJSON {
	return workJSON{Owned: w.Buckets, InFlight: w.InFlight, Paused: w.Paused, PausedSince: timeText(w.PausedSince),
		SinceStart: countsJSON(w.Totals), Last1m: newRecentJSON(w.Last1m), Last5m: newRecentJSON(w.Last5m), Last60m: newRecentJSON(w.Last60m)}
}

func newRecentJSON(r core.Recent) recentJSON {
	return recentJSON{countsJSON(r.Counts), latenessJSON{milliseconds(r.LatenessP50), milliseconds(r.LatenessP99), milliseconds(r.LatenessMax)}}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
