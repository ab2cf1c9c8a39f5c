package httplistener

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// handler answers a request, or returns why not and has written nothing.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handle := range s.handlers() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				s.refuse(w, r, err)
			}
		})
	}
	return mux
}

// handlers are what answers, by http.ServeMux's patterns. openapi.yaml has those
// with a method.
func (s *Server) handlers() map[string]handler {
	all := map[string]handler{
		"GET /livez":           s.live,
		"GET /readyz":          s.ready,
		"GET /problems/{code}": s.showProblem,
		"/":                    noRoute,

		// The same paths with another method.
		"/livez":           allow("GET, HEAD"),
		"/readyz":          allow("GET, HEAD"),
		"/problems/{code}": allow("GET, HEAD"),
	}
	if s.config.Metrics != nil {
		all["GET "+pathMetrics], all[pathMetrics] = s.metrics, allow("GET, HEAD")
	}
	if !s.config.MetricsOnly {
		maps.Copy(all, s.api())
	}
	return all
}

// api are the handlers of messages.
func (s *Server) api() map[string]handler {
	return map[string]handler{
		"POST /v1/messages":                  s.postMessage,
		"POST /v1/messages/batch":            s.postBatch,
		"POST /v1/publish/{sink}/{topic}":    s.publish,
		"GET /v1/messages":                   s.listMessages,
		"GET /v1/messages/{id}":              s.getMessage,
		"PATCH /v1/messages/{id}":            s.reschedule,
		"DELETE /v1/messages/{id}":           s.change(s.in.Cancel),
		"POST /v1/messages/{id}/deliver-now": s.change(s.in.DeliverNow),
		"GET /v1/dead":                       s.listDead,
		"POST /v1/dead/{id}/redrive":         s.change(s.in.Redrive),
		"DELETE /v1/dead/{id}":               s.change(s.in.Discard),
		"GET /v1/stats":                      s.stats,
		"GET /v1/instances":                  s.instances,
		"GET /v1/timeline":                   s.timeline,
		"GET /v1/events":                     s.events,
		"POST /v1/reload":                    s.reload,
		"GET " + pathOpenAPI:                 s.showOpenAPI,

		// The same paths with another method.
		"/v1/messages":                  allow("GET, HEAD, POST"),
		"/v1/messages/{id}":             allowByID,
		"/v1/publish/{sink}/{topic}":    allow("POST"),
		"/v1/messages/{id}/deliver-now": allow("POST"),
		"/v1/dead":                      allow("GET, HEAD"),
		"/v1/dead/{id}/redrive":         allow("POST"),
		"/v1/dead/{id}":                 allow("DELETE"),
		"/v1/stats":                     allow("GET, HEAD"),
		"/v1/instances":                 allow("GET, HEAD"),
		"/v1/timeline":                  allow("GET, HEAD"),
		"/v1/events":                    allow("GET, HEAD"),
		"/v1/reload":                    allow("POST"),
		pathOpenAPI:                     allow("GET, HEAD"),
	}
}

// serve is what every request comes through.
func (s *Server) serve(w http.ResponseWriter, given *http.Request) {
	body := &countedBody{ReadCloser: given.Body, budget: s.unanswered}
	defer body.answered()
	// A copy: net/http looks at the body that it has given to know how to end the
	// connection.
	r := given.WithContext(given.Context())
	r.Body = body
	defer s.survive(w, r)
	header := w.Header()
	header["X-Content-Type-Options"], header["Cache-Control"] = headerNosniff, headerNoStore
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		header["Connection"] = headerClose
	}
	if isSpare(r) { // is free again for the next who asks for health
		header["Connection"] = headerClose
		if !open(r.URL.Path) {
			s.refuse(w, r, busy(r, "the limit of connections is reached"))
			return
		}
	}
	if err := s.admit(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Values of response headers, shared by all answers.
var (
	headerNosniff = []string{"nosniff"}
	headerNoStore = []string{"no-store"}
	headerClose   = []string{"close"}
	typeJSON      = []string{"application/json"}
	typeNDJSON    = []string{"application/x-ndjson"}
	typeText      = []string{"text/plain; charset=utf-8"}
	typeYAML      = []string{"application/yaml"}
	typeProblem   = []string{"application/problem+json"}
	typeEvents    = []string{"text/event-stream"}
	headerNo      = []string{"no"}
)

// survive answers for a handler that panicked. Handlers write only what is
// complete, so nothing has been written yet.
func (s *Server) survive(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.config.Log.Error("request failed with a panic", "method", r.Method, "route", r.Pattern, "err", cause, "stack", string(debug.Stack()))
	p := newProblem(codeInternal, "the bridge failed to handle this request; its log has the details")
	if r.Method == http.MethodPost {
		p.Stored = outcomeUnknown
	}
	s.refuse(w, r, p)
}

// admit checks what is the same for all routes.
func (s *Server) admit(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodPut, http.MethodOptions:
	default:
		p := newProblem(codeMethod, "the method is not used by this API")
		p.allow = "GET, HEAD, POST, PATCH, DELETE"
		return p
	}
	// ServeMux would redirect to a clean path, which may be another message's.
	if escaped := r.URL.EscapedPath(); path.Clean(escaped) != escaped {
		return newProblem(codeNoRoute, "the path has an empty segment, a dot segment, or a slash at its end")
	}
	if open(r.URL.Path) {
		return nil
	}
	if s.isCrossOrigin(r) {
		return newProblem(codeCrossOrigin, "a browser sent this from another origin")
	}
	return s.authenticate(r)
}

// isCrossOrigin reports whether a browser says that another origin made it send r.
// Where there are no tokens, that counts for reading, too: the page would not
// see the answer, but it costs us as much as any.
func (s *Server) isCrossOrigin(r *http.Request) bool {
	if s.tokens.None() {
		r = &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
	}
	return s.crossOrigin.Check(r) != nil
}

const pathMetrics = "/metrics"

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}

// open reports which paths need no token.
func open(path string) bool {
	return path == "/livez" || path == "/readyz" || path == pathOpenAPI || strings.HasPrefix(path, "/problems/")
}

// authenticate needs a good token, unless metrics are read on loopback, or, where there
// are none, that the request was not led here by a name that someone else controls.
func (s *Server) authenticate(r *http.Request) error {
	if s.tokens.None() {
		if s.config.Insecure || localHost(r.Host) {
			return nil
		}
		return newProblem(codeMisdirected, "without tokens, the host must be localhost or an IP address")
	}
	if s.hasToken(r) || r.URL.Path == pathMetrics && s.config.loopback() && localHost(r.Host) {
		return nil
	}
	if s.flood.Spend(r.RemoteAddr, time.Now()) {
		return newProblem(codeUnauthorized, "send one header Authorization: Bearer <token> with a valid token")
	}
	return newProblem(codeTooMany, "too many requests without a valid token from this address")
}

func (s *Server) hasToken(r *http.Request) bool {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return strings.EqualFold(scheme, "Bearer") && s.tokens.Admit(token)
}

// mayReadAll tells, for a path that is open, whether r shows a token; or, where
// there are none, whether it comes from this machine and from no page.
func (s *Server) mayReadAll(r *http.Request) bool {
	if !s.tokens.None() {
		return s.hasToken(r)
	}
	return s.config.loopback() && localHost(r.Host) && !s.isCrossOrigin(r)
}

func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}

func noRoute(http.ResponseWriter, *http.Request) error {
	return newProblem(codeNoRoute, "there is nothing at this path")
}

// allow answers a method that a path does not have.
func allow(methods string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", methods)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		p := newProblem(codeMethod, "this path has "+methods)
		p.allow = methods
		return p
	}
}

// allowByID tells the batch path from a message that has the id "batch".
func allowByID(w http.ResponseWriter, r *http.Request) error {
	methods := "GET, HEAD, PATCH, DELETE"
	if r.PathValue("id") == "batch" {
		methods += ", POST"
	}
	return allow(methods)(w, r)
}
