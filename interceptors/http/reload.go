package httplistener

import (
	"context"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

// maxReloadError bounds what is told of why a reload was refused: there may be several
// faults in a file.
const maxReloadError = 4096

// reload has the configuration read again. It is for those who may read everything, as
// the answer shows settings.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	query, err := queryOf(r, nil, "dry_run")
	if err != nil {
		return err
	}
	dryRun := query.Get("dry_run")
	switch {
	case query.Has("dry_run") && dryRun != "true" && dryRun != "false":
		return core.Invalidf("dry_run", "must be true or false")
	case s.config.Reload == nil:
		return newProblem(codeNotSupported, "this bridge has no configuration file to read again")
	case !s.mayReadAll(r):
		return newProblem(codeUnauthorized, "without tokens, only this machine may reload the configuration")
	}
	// A caller who gives up does not leave it half done.
	report, err := s.config.Reload(context.WithoutCancel(r.Context()), dryRun == "true")
	if err != nil {
		p := newProblem(codeReload, core.Shorten(err.Error(), maxReloadError))
		p.Changed = false
		return p
	}
	return s.writeJSON(w, http.StatusOK, report)
}

// configuration is what readiness tells of the last reload: to strangers, that it failed.
func (s *Server) configuration(r *http.Request) string {
	if s.config.LastReload == nil {
		return ""
	}
	err := s.config.LastReload()
	switch {
	case err == nil:
		return ""
	case s.mayReadAll(r):
		return "last reload failed: " + core.Shorten(err.Error(), maxReason)
	}
	return "last reload failed"
}
