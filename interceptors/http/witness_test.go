package httplistener

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// witness passes requests on and holds them and their answers against the
// document. A request that the document refuses must be refused by the server
// too, and what the server takes, the document must allow.
type witness struct {
	*testing.T
	document *openapi3.T
	listener *Server
	seen     map[string]bool // operation and status
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	w.listener.serve(recorder, r)
	w.check(r, body, recorder)
	maps.Copy(rw.Header(), recorder.Header())
	rw.WriteHeader(recorder.Code)
	rw.Write(recorder.Body.Bytes())
}

func (w *witness) check(r *http.Request, body []byte, answer *httptest.ResponseRecorder) {
	_, pattern := w.listener.mux.Handler(r)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return // no operation
	}
	w.seen[fmt.Sprint(pattern, " ", answer.Code)] = true
	item := w.document.Paths.Value(path)
	input := w.input(r, body, method, path, item)
	input.Options = &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	name := fmt.Sprintf("%s %s: %d %s", r.Method, r.URL, answer.Code, answer.Body)
	requestErr := openapi3filter.ValidateRequest(r.Context(), input)
	if strings.HasSuffix(path, "/batch") && answer.Code == http.StatusOK {
		w.checkResults(w.parts(body), w.parts(answer.Body.Bytes()))
		if r.Header.Get("Content-Type") == "application/x-ndjson" {
			return // of which the document has words only
		}
	}
	if requestErr != nil && answer.Code < 300 {
		w.Errorf("%s: the document refuses the request: %v\n%s", name, requestErr, body)
	}
	err := openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answer.Code, Header: answer.Header(),
		Body: io.NopCloser(bytes.NewReader(answer.Body.Bytes())), Options: input.Options,
	})
	if err != nil {
		w.Errorf("%s: the document refuses the answer: %v", name, err)
	}
	for _, header := range []string{"Location", "Retry-After", "WWW-Authenticate"} {
		response := item.GetOperation(method).Responses.Status(answer.Code)
		if answer.Header().Get(header) != "" && (response == nil || response.Value.Headers[header] == nil) {
			w.Errorf("%s: the document does not have the header %s", name, header)
		}
	}
}

// input is what kin-openapi wants to know of a request; the server's own patterns
// say which operation it is.
func (w *witness) input(r *http.Request, body []byte, method, path string, item *openapi3.PathItem) *openapi3filter.RequestValidationInput {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasPrefix(path, "/v1/publish") {
		again.Header.Set("Content-Type", "application/octet-stream") // by its text, for any other one
	}
	input := &openapi3filter.RequestValidationInput{Request: again, PathParams: make(map[string]string), QueryParams: r.URL.Query()}
	given := strings.Split(r.URL.EscapedPath(), "/")
	for n, segment := range strings.Split(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			value, err := url.PathUnescape(given[n])
			if err != nil {
				w.Error(err)
			}
			input.PathParams[strings.TrimSuffix(name, "}")] = value
		}
	}
	input.Route = &routers.Route{Spec: w.document, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)}
	return input
}

// parts are the elements of an array, or the lines.
func (w *witness) parts(text []byte) (parts []json.RawMessage) {
	if !bytes.HasPrefix(text, []byte("[")) {
		for line := range bytes.Lines(text) {
			parts = append(parts, bytes.TrimSuffix(line, []byte("\n")))
		}
	} else if err := json.Unmarshal(text, &parts); err != nil {
		w.Error(err)
	}
	return parts
}

// checkResults holds the messages and results of a batch against their schemas.
func (w *witness) checkResults(given, results []json.RawMessage) {
	if len(given) != len(results) {
		w.Errorf("%d results for %d", len(results), len(given))
		return
	}
	for n, result := range results {
		whole, accepted := "Problem", bytes.HasPrefix(result, []byte(`{"status":20`))
		if accepted {
			whole = "Receipt"
		}
		if err := errors.Join(w.fits("BatchResult", result), w.fits(whole, receiptStatus.ReplaceAll(result, []byte("{")))); err != nil {
			w.Errorf("the document refuses the result %s: %v", result, err)
		}
		if err := w.fits("Message", given[n]); err != nil && accepted {
			w.Errorf("the document refuses the message %s: %v", given[n], err)
		}
	}
}

// receiptStatus is what a receipt in a batch has more than others.
var receiptStatus = regexp.MustCompile(`^{"status":20\d,`)

func (w *witness) fits(schema string, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return w.document.Components.Schemas[schema].Value.VisitJSON(value)
}

// observe puts the witness between the fixture's client and server.
func (w *witness) observe(f *fixture) {
	w.listener = f.listener
	f.http.Config.Handler = w
}

func (w *witness) want(a answer, status int) {
	w.Helper()
	if a.status != status {
		w.Errorf("got %d %s, want %d", a.status, a.text, status)
	}
}
