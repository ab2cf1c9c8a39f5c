package httplistener

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// problem is an RFC 9457 answer. As an error it is what a handler returns.
type problem struct {
	Type   string     `json:"type"`
	Title  string     `json:"title"`
	Status int        `json:"status"`
	Code   string     `json:"code"`
	Detail string     `json:"detail"`
	Field  string     `json:"field,omitempty"`
	ID     string     `json:"id,omitempty"`
	Sink   string     `json:"sink,omitempty"`
	State  core.State `json:"state,omitempty"`
	// Stored, at accept, and Changed, at other calls, tell what became of the
	// message: false, or outcomeUnknown.
	Stored  any `json:"stored,omitempty"`
	Changed any `json:"changed,omitempty"`

	allow string // of codeMethod
	close bool   // the rest of the request is not read
	// byCore: the Interceptor has answered this, and has told the observer what it is to
	// know. All else the listener refuses by itself.
	byCore bool
}

const outcomeUnknown = "unknown"

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// The codes of package apierror.
const (
	codeMalformed    = apierror.Malformed
	codeInvalid      = apierror.Invalid
	codeBadCursor    = apierror.BadCursor
	codeUnauthorized = apierror.Unauthorized
	codeCrossOrigin  = apierror.CrossOrigin
	codeNoRoute      = apierror.NoRoute
	codeNotFound     = apierror.NotFound
	codeMethod       = apierror.Method
	codeTimeout      = apierror.Timeout
	codeConflict     = apierror.Conflict
	codeTooLate      = apierror.TooLate
	codeAmbiguous    = apierror.Ambiguous
	codeReload       = apierror.Reload
	codeTooLarge     = apierror.TooLarge
	codeMediaType    = apierror.MediaType
	codeMisdirected  = apierror.Misdirected
	codeTooMany      = apierror.TooMany
	codeHeaders      = apierror.Headers
	codeInternal     = apierror.Internal
	codeNotSupported = apierror.NotSupported
	codeUnavailable  = apierror.Unavailable
	codeBusy         = apierror.Busy
	codeFull         = apierror.Full
	codeUnknown      = apierror.Unknown
)

// code is what is the same for all problems of one kind.
type code struct {
	status int
	title  string
	page   string
}

var codes = map[string]code{
	codeMalformed:    {400, "The request can't be read", "The body is not the required JSON. Nothing was stored or changed; fix the request."},
	codeInvalid:      {400, "The request is invalid", "The member \"field\" names the invalid part, \"detail\" the rule. Nothing was stored or changed; fix the request."},
	codeBadCursor:    {400, "The cursor is not valid for this query", "A cursor is valid only for the query that returned it. Start again without a cursor."},
	codeUnauthorized: {401, "A token is needed", "Send exactly one header, Authorization: Bearer <token>, with a valid token. Tokens in the query are ignored."},
	codeCrossOrigin:  {403, "Request of a browser from another origin", "A web page of another origin sent the request. The API does not accept such requests."},
	codeNoRoute:      {404, "There is nothing at this path", "Check the path. A '/' within an id is written %2F."},
	codeNotFound:     {404, "No such message", "No message of this id is stored, or it was settled longer ago than the sink's dedupe window."},
	codeMethod:       {405, "The method is not allowed for this path", "The header Allow lists the allowed methods."},
	codeTimeout:      {408, "The request took too long to arrive", "Nothing was stored or changed; send it again."},
	codeConflict:     {409, "The id is used by a message with other content", "A message of this id is stored with another topic, key, body, headers, options or priority, and is unchanged; or, if \"state\" is cancelled, it was cancelled within the sink's dedupe window. Nothing was stored. Use a unique id for each message."},
	codeTooLate:      {409, "Too late", "The state of the message, in \"state\", does not allow the change. Nothing was changed."},
	codeAmbiguous:    {409, "The id names two messages", "The id is in use in two sinks or with two keys. Nothing was changed; add ?sink=, and ?key= or ?key_base64=."},
	codeTooLarge:     {413, "Too large", "The body, or the request around it, is larger than the limit. Nothing was stored."},
	codeMediaType:    {415, "The media type is not supported", "Send JSON as application/json, lines of JSON as application/x-ndjson, and nothing compressed."},
	codeMisdirected:  {421, "The host name is not allowed", "Without tokens, the bridge answers only requests to localhost or an IP address. Configure tokens to use other names."},
	codeReload:       {422, "The configuration was not changed", "The configuration file has a fault, or changes what needs a restart. Everything runs as before; fix the file, or restart the bridge."},
	codeTooMany:      {429, "Too many failed log-ins", "This address has sent too many requests without a valid token. Wait as long as Retry-After says."},
	codeHeaders:      {431, "The headers are too large", "The number or the size of the message's headers exceeds the limit. Nothing was stored."},
	codeInternal:     {500, "The bridge failed", "This is a fault of the bridge; its log has the details. If \"stored\" is \"unknown\", sending the same again with the same id is safe."},
	codeNotSupported: {501, "This bridge can't do this", "The configured store can't list or count its messages, or the bridge has no configuration file to read again, or no stream of events."},
	codeUnavailable:  {503, "The store is unavailable", "Nothing was stored or changed. Send it again later."},
	codeBusy:         {503, "The bridge is busy", "The limit http.max_connections or http.max_unanswered is reached, or the number of readers of events. Nothing was stored or changed. Send it again later."},
	codeFull:         {503, "The store is full", "Nothing was stored. Send it again when messages have been delivered, or give the store more memory or disk space."},
	codeUnknown:      {503, "The outcome is unknown", "The store did not answer in time: the message may or may not be stored, or changed. Sending the same again with the id in the answer is safe."},
}

func newProblem(name, detail string) *problem {
	c := codes[name]
	return &problem{Type: "/problems/" + name, Title: c.title, Status: c.status, Code: name, Detail: detail}
}

// refuse answers with the problem that err is.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	s.observe(r, p)
	header := w.Header()
	header["Content-Type"] = typeProblem
	if wait := apierror.RetryAfter(p.Code); wait > 0 {
		header.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
	}
	switch p.Code {
	case codeUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="delaybridge"`)
	case codeMethod:
		header.Set("Allow", p.allow)
	}
	if p.close || p.Code == codeTooMany || p.Code == codeBusy {
		header["Connection"] = headerClose
	}
	s.write(w, p.Status, append(p.encode(), '\n'))
}

// observe has the observer told of what the listener has refused by itself.
func (s *Server) observe(r *http.Request, p *problem) {
	if !p.byCore {
		s.in.Refused(r.Context(), p.Code)
	}
}

func (p *problem) encode() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // problem has plain fields only
	}
	return text
}

// write sends a complete answer. That it can't be sent is the client's to notice.
func (s *Server) write(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.config.Log.Debug("answer not sent", "err", err)
	}
}

// showProblem is the page that problem.Type leads to.
func (s *Server) showProblem(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("code")
	c, ok := codes[name]
	if !ok {
		return newProblem(codeNoRoute, "there is no such code")
	}
	w.Header()["Content-Type"] = typeText
	s.write(w, http.StatusOK, fmt.Appendf(nil, "%s (%d): %s\n\n%s\n", name, c.status, c.title, c.page))
	return nil
}
