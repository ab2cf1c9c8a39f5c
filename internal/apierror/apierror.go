// Package apierror has the error codes of the API. All listeners use it, so that an
// error has the same code in each: in HTTP the "code" of a problem, in gRPC the reason
// of an ErrorInfo and the code of a result.
package apierror

import (
	"errors"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// The codes that all listeners share. They are stable.
const (
	Malformed    = "malformed"         // can't be read
	Invalid      = "invalid"           // the request is invalid
	TooLarge     = "too_large"         // the body, or the request around it
	BadCursor    = "bad_cursor"        // of another query
	Unauthorized = "unauthorized"      // a valid token is required
	TooMany      = "too_many_requests" // without a valid token
	Headers      = "headers_too_large" // of the message, or the metadata of a call
	NotFound     = "not_found"
	Conflict     = "conflict"
	TooLate      = "too_late"
	Ambiguous    = "ambiguous"
	Timeout      = "request_timeout" // before the store was asked
	Internal     = "internal"        // a fault of the bridge
	NotSupported = "not_supported"   // by the store
	Unavailable  = "unavailable"
	Busy         = "busy" // more connections, or bytes of requests, than allowed
	Full         = "store_full"
	Unknown      = "outcome_unknown"

	// Those that only HTTP has.
	CrossOrigin = "cross_origin"
	NoRoute     = "no_such_route"
	Method      = "method_not_allowed"
	MediaType   = "unsupported_media_type"
	Misdirected = "misdirected"
	Reload      = "reload_refused"
)

// All returns every code.
func All() []string {
	return []string{Malformed, Invalid, TooLarge, BadCursor, Unauthorized, TooMany, Headers, NotFound, Conflict, TooLate, Ambiguous, Timeout,
		Internal, NotSupported, Unavailable, Busy, Full, Unknown, CrossOrigin, NoRoute, Method, MediaType, Misdirected, Reload}
}

// maxDetail bounds what is told of a store's error.
const maxDetail = 256

// Error is an error as it is reported to a producer.
type Error struct {
	Code   string
	Field  string // the invalid member of the message, if it is one
	Detail string // for people; this and Field are UTF-8
}

// Of returns the Error of an error of core. Other errors have the code of an unknown
// outcome.
func Of(err error) Error {
	if e, ok := errors.AsType[*core.InvalidError](err); ok {
		return Error{Code: invalidCode(e), Field: text(e.Field), Detail: text(e.Error())}
	}
	detail := text(core.Shorten(err.Error(), maxDetail))
	for _, known := range []struct {
		err  error
		code string
	}{
		{core.ErrNotFound, NotFound}, {core.ErrTooLate, TooLate}, {core.ErrConflict, Conflict},
		{core.ErrAmbiguous, Ambiguous}, {core.ErrBadCursor, BadCursor}, {core.ErrNoInspector, NotSupported},
		{core.ErrFull, Full}, {core.ErrUnavailable, Unavailable},
	} {
		if errors.Is(err, known.err) {
			return Error{Code: known.code, Detail: detail}
		}
	}
	return Error{Code: Unknown, Detail: detail}
}

func text(s string) string { return strings.ToValidUTF8(s, "?") }

func invalidCode(e *core.InvalidError) string {
	if e.TooLarge && e.Field == "body" {
		return TooLarge
	}
	return Invalid
}

// RetryAfter returns how long a producer should wait before it sends the same again;
// zero if a repeat would not help.
func RetryAfter(code string) time.Duration {
	switch code {
	case Unavailable, Unknown, TooMany, Busy:
		return time.Second
	case Full:
		return 5 * time.Second
	}
	return 0
}
