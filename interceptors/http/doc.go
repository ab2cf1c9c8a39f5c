// Package httplistener is the way in over HTTP: it decodes requests, calls
// core.Interceptor and encodes what that answers. (It is not named http, so
// that it can stand beside net/http.)
//
//	POST   /v1/messages                   accept one message, a JSON object
//	POST   /v1/messages/batch             accept many, one JSON object a line
//	POST   /v1/publish/{sink}/{topic}     accept the request's body as it is
//	GET    /v1/messages                   list what waits
//	GET    /v1/messages/{id}              look at one
//	PATCH  /v1/messages/{id}              reschedule
//	DELETE /v1/messages/{id}              cancel
//	POST   /v1/messages/{id}/deliver-now  make due at once
//	GET    /v1/dead                       list dead letters
//	POST   /v1/dead/{id}/redrive          send a dead letter again
//	DELETE /v1/dead/{id}                  discard a dead letter
//	GET    /v1/stats                      count
//	GET    /livez, /readyz                no token needed
//	GET    /problems/{code}               what an error code means; no token needed
//	GET    /openapi.yaml                  the API in OpenAPI 3.1; no token needed
//
// Only 201, and 200 with "duplicate": true, mean that a message is stored. A
// 4xx means that it is not. Whatever else happens, also a broken connection,
// leaves it open unless the answer says "stored": false; sending the same
// again with the same id is safe.
//
// An error is an RFC 9457 problem (application/problem+json) with a stable
// code. Three answers are not, as net/http gives them before this package is
// asked: 400 for what is no HTTP, 431 for a request head that is too large, and
// 501 for a transfer coding other than chunked.
//
// # Message
//
// The JSON object of a message has these members; others are refused, and so is
// a member that appears twice. A member that is null counts as absent, but for
// body.
//
//	id          text; made if absent
//	sink        may be absent where only one sink is configured
//	topic       text
//	key         text; or key_base64 for bytes
//	headers     {"name": "text" | null | ["text" | null, ...], ...}, or
//	            [{"name": "n", "value": "text" | null} | {"name": "n", "value_base64": "..."}, ...]
//	body        a string is its text; an object, array, number or boolean is its
//	            JSON, byte for byte as it stands in the request; null is a null
//	            body, absent an empty one; or body_base64 for bytes
//	delay       a duration; exactly one of this and deliver_at
//	deliver_at  a time
//	ttl         a duration; at most one of this and expires_at
//	expires_at  a time
//	priority    0 to 9
//	options     {"name": "text", ...}
//
// A duration is in Go's form with d and w besides ("1h30m", "2d"), or in that
// of ISO 8601 without years and months ("P1DT2H"); a time is RFC 3339 with its
// offset. Header order is kept. Text values of headers have no CR, LF or NUL.
//
// # Publish
//
// /v1/publish takes the body as it is, and the rest from request headers, in
// which case does not matter and '_' equals '-': Delaybridge-Delay or
// Delaybridge-Deliver-At, and Delaybridge-Id, -Key, -Ttl, -Expires-At and
// -Priority. The message's own headers are Content-Type, if there is one, and
// each Delaybridge-Header-<name>; they are given in lower case and in order of
// their names, as HTTP keeps neither. Other request headers are not part of the
// message; another name that begins with Delaybridge- is refused.
//
// # Calls by id
//
// They take ?sink=, and ?key= or ?key_base64=, where the id alone does not tell.
// An id with a '/' is written with %2F.
//
// # Connections
//
// Where neither tokens nor Insecure are set, requests must name the host as
// localhost or by address, so that no web page can reach the bridge by a name
// of its own; and no browser may send from another origin in any case. HTTP/2
// is offered with TLS. A chunked HTTP/1.1 request ends its connection: it may
// have had a Content-Length as well, which net/http drops without telling.
package httplistener
