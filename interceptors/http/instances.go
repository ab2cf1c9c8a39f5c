package httplistener

import (
	"context"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

type instancesJSON struct {
	Instances []instanceJSON `json:"instances"`
}

// instanceJSON is a live instance as it has described itself age_ms ago. One that has
// not, as it is of another version, has its name only.
type instanceJSON struct {
	Instance  string             `json:"instance"`
	Self      bool               `json:"self"`
	AgeMS     *int64             `json:"age_ms,omitempty"`
	Version   string             `json:"version,omitempty"`
	Config    string             `json:"config,omitempty"`
	StartedAt string             `json:"started_at,omitempty"`
	Listeners map[string]string  `json:"listeners,omitempty"`
	Sinks     []instanceSinkJSON `json:"sinks,omitempty"`
	Sources   []sourceJSON       `json:"sources,omitempty"`
	Omitted   int                `json:"omitted,omitempty"`
}

type instanceSinkJSON struct {
	Sink string `json:"sink"`
	workJSON
}

func (s *Server) instances(w http.ResponseWriter, r *http.Request) error {
	if _, err := queryOf(r, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	all, err := s.in.Instances(ctx)
	if err != nil {
		return err
	}
	answer := instancesJSON{Instances: make([]instanceJSON, len(all))}
	for n, one := range all {
		answer.Instances[n] = newInstanceJSON(one)
	}
	return s.writeJSON(w, http.StatusOK, answer)
}

func newInstanceJSON(one core.Instance) instanceJSON {
	j := instanceJSON{Instance: one.Name, Self: one.Self, Version: one.Version, Config: one.Config, StartedAt: timeText(one.Started),
		Listeners: one.Listeners, Sources: newSourcesJSON(one.Sources), Omitted: one.Omitted}
	if age := one.Age.Milliseconds(); one.Age >= 0 {
		j.AgeMS = &age
	}
	for _, work := range one.Sinks {
		j.Sinks = append(j.Sinks, instanceSinkJSON{work.Sink, newWorkJSON(work)})
	}
	return j
}
