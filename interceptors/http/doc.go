// Package httplistener serves the HTTP API: it decodes requests, calls core.Interceptor
// and encodes the results. (It is not named http, to avoid a conflict with net/http.)
//
//	POST   /v1/messages                   accept one message, a JSON object
//	POST   /v1/messages/batch             accept many: a JSON array, or one JSON object per line
//	POST   /v1/publish/{sink}/{topic}     accept the request's body as it is
//	GET    /v1/messages                   list waiting messages
//	GET    /v1/messages/{id}              get one message
//	PATCH  /v1/messages/{id}              reschedule
//	DELETE /v1/messages/{id}              cancel
//	POST   /v1/messages/{id}/deliver-now  make due at once
//	GET    /v1/dead                       list dead letters
//	POST   /v1/dead/{id}/redrive          send a dead letter again
//	DELETE /v1/dead/{id}                  discard a dead letter
//	GET    /v1/stats                      counts
//	GET    /metrics                       of Prometheus, if Config.Metrics is set; on loopback no token needed
//	GET    /livez, /readyz                no token needed
//	GET    /problems/{code}               explain an error code; no token needed
//	GET    /openapi.yaml                  the API in OpenAPI 3.0; no token needed
//
// Only 201, and 200 with "duplicate": true, mean that a message is stored. A 4xx means
// that it is not. With any other result, also a broken connection, the outcome is
// unknown unless the answer has "stored": false; sending the same again with the same
// id is safe.
//
// An error is an RFC 9457 problem (application/problem+json) with a stable code. Three
// answers are not, because net/http sends them before it calls this package: 400 for a
// request that is not HTTP, 431 for a request head that is too large, and 501 for a
// transfer coding other than chunked.
//
// # Message
//
// The JSON object of a message has these members; others are refused, and so is a
// member that appears twice. Except for body, null counts as absent.
//
//	id          text; generated if absent
//	sink        may be absent if only one sink is configured
//	topic       text
//	key         text; or key_base64 for bytes
//	headers     {"name": "text" | null | ["text" | null, ...], ...}, or
//	            [{"name": "n", "value": "text" | null} | {"name": "n", "value_base64": "..."}, ...]
//	body        a string is its text; an object, array, number or boolean is its
//	            JSON, byte for byte as in the request; null is a null
//	            body, absent an empty one; or body_base64 for bytes
//	delay       a duration; exactly one of this and deliver_at
//	deliver_at  a time
//	ttl         a duration; at most one of this and expires_at
//	expires_at  a time
//	priority    0 to 9
//	options     {"name": "text", ...}
//
// A duration is in Go's form with the additional units d and w ("1h30m", "2d"), or in
// ISO 8601 form without years and months ("P1DT2H"); a time is RFC 3339 with offset.
// Header order is kept. Text values of headers have no CR, LF or NUL.
//
// # Publish
//
// /v1/publish accepts the body as it is, and reads the rest from request headers,
// ignoring case and with '_' equal to '-': Delaybridge-Delay or Delaybridge-Deliver-At,
// and Delaybridge-Id, -Key, -Ttl, -Expires-At and -Priority. The message's own headers
// are Content-Type, if there is one, and each Delaybridge-Header-<name>, in lower case
// and in order of their names, because HTTP keeps neither case nor order. Other request
// headers are not part of the message; any other name that begins with Delaybridge- is
// refused.
//
// # Calls by id
//
// They accept ?sink=, and ?key= or ?key_base64=, for an id that is not unique. Write a
// '/' in an id as %2F.
//
// # Connections
//
// If neither tokens nor Insecure are set, the host in requests must be localhost or an
// IP address, so that no web page can reach the bridge by another name (DNS rebinding).
// Requests of browsers from another origin are always refused. HTTP/2 is offered with
// TLS. A chunked HTTP/1.1 request ends its connection: it may also have had a
// Content-Length, which net/http drops silently.
package httplistener
