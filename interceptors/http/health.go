package httplistener

import (
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

// maxReason bounds what is told of why the bridge is not ready.
const maxReason = 256

// healthJSON answers /readyz.
type healthJSON struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason,omitempty"`
	Durability string `json:"durability"`
	Insecure   bool   `json:"insecure,omitempty"`
	// Sinks has those that nothing can be delivered to at present, and a word on why.
	// They don't make the bridge unready: it continues to park.
	Sinks map[string]string `json:"sinks,omitempty"`
	// Sources has the state of those that don't run as they should. They don't make
	// the bridge unready, as all else continues.
	Sources map[string]string `json:"sources,omitempty"`
	// Configuration tells that the last reload failed, if it did.
	Configuration string `json:"configuration,omitempty"`
}

// live reports that the process answers.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Content-Type"] = typeJSON
	s.write(w, http.StatusOK, []byte("{\"live\":true}\n"))
	return nil
}

// ready reports whether messages can be accepted, and those who may read everything
// why not: the reason can name servers.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	answer, status := healthJSON{Ready: true, Durability: s.in.Durability(), Insecure: s.config.Insecure}, http.StatusOK
	err := s.in.Ready(r.Context())
	s.readiness.Note(s.config.Log, err)
	if err != nil {
		answer.Ready, answer.Reason, status = false, reasonForStrangers, http.StatusServiceUnavailable
		if s.mayReadAll(r) {
			answer.Reason = core.Shorten(err.Error(), maxReason)
		}
	}
	answer.Sinks = s.in.HeldBack() // names and states only: strangers may ask
	answer.Sources = s.troubledSources()
	answer.Configuration = s.configuration(r)
	return s.writeJSON(w, status, answer)
}

const reasonForStrangers = "messages can't be accepted; the log has the reason, and so has the answer to a request with a token"

// troubledSources returns names and states only: strangers may ask.
func (s *Server) troubledSources() map[string]string {
	troubled := make(map[string]string)
	for _, r := range s.in.Sources() {
		if state := r.State(); state != "running" {
			troubled[r.Source] = state
		}
	}
	return troubled
}
