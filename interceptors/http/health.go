package httpdoor

import (
	"context"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// maxReason bounds what is told of why the bridge is not ready.
const maxReason = 256

// readyTimeout bounds how long /readyz asks the store.
const readyTimeout = 3 * time.Second

// healthJSON answers /readyz.
type healthJSON struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason,omitempty"`
	Durability string `json:"durability"`
	Insecure   bool   `json:"insecure,omitempty"`
	// Sinks has those that nothing can be delivered to at present, and a word on why.
	// They don't make the bridge unready: it parks on.
	Sinks map[string]string `json:"sinks,omitempty"`
	// Intakes has the state of those that don't run as they should. They don't make
	// the bridge unready, as all else goes on.
	Intakes map[string]string `json:"intakes,omitempty"`
}

// live tells that the process answers.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Content-Type"] = typeJSON
	s.write(w, http.StatusOK, []byte("{\"live\":true}\n"))
	return nil
}

// ready tells whether messages can be accepted.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	answer, status := healthJSON{Ready: true, Durability: s.in.Durability(), Insecure: s.config.Insecure}, http.StatusOK
	if err := s.in.Ready(ctx); err != nil {
		answer.Ready, answer.Reason, status = false, core.Shorten(err.Error(), maxReason), http.StatusServiceUnavailable
	}
	answer.Sinks = s.in.HeldBack() // names and states only: strangers may ask
	answer.Intakes = s.troubledIntakes()
	return s.writeJSON(w, status, answer)
}

// troubledIntakes returns names and states only: strangers may ask.
func (s *Server) troubledIntakes() map[string]string {
	if s.config.Intakes == nil {
		return nil
	}
	troubled := make(map[string]string)
	for _, r := range s.config.Intakes() {
		if state := r.state(); state != stateRunning {
			troubled[r.Intake] = state
		}
	}
	return troubled
}
