package httplistener

import (
	_ "embed"
	"net/http"
)

// openapi describes the API in OpenAPI 3.0.
//
//go:embed openapi.yaml
var openapi []byte

const pathOpenAPI = "/openapi.yaml"

func (s *Server) showOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Content-Type"] = typeYAML
	s.write(w, http.StatusOK, openapi)
	return nil
}
