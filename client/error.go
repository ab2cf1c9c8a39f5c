package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors for errors.Is; the package documentation describes how to handle each.
var (
	ErrInvalid      = errors.New("delaybridge: the request is invalid")
	ErrConflict     = errors.New("delaybridge: the ID is used by a message with other content")
	ErrNotFound     = errors.New("delaybridge: no such message")
	ErrTooLate      = errors.New("delaybridge: too late")
	ErrAmbiguous    = errors.New("delaybridge: the ID names two messages")
	ErrUnauthorized = errors.New("delaybridge: a valid token is required")
	ErrUnavailable  = errors.New("delaybridge: unavailable")
	ErrUnknown      = errors.New("delaybridge: the outcome is unknown")
)

// The codes that are acted on here.
const (
	codeInvalid     = "invalid"
	codeMalformed   = "malformed"
	codeTooLate     = "too_late"
	codeConflict    = "conflict"
	codeTooLarge    = "too_large"
	codeUnavailable = "unavailable"
	codeUnknown     = "outcome_unknown"
)

// Error is the error of a failed call.
type Error struct {
	Status  int    // of the HTTP response; 0 without one
	Code    string // as in the API's table of errors; empty without an answer of delaybridge
	Field   string // the invalid field of the message, if it is one
	Message string // for people
	State   State  // with ErrTooLate: the message's state
	// Unknown reports that this try or an earlier one may have made the change. If it
	// is false, nothing was stored or changed.
	Unknown bool
	Err     error // error of the network or the context; may be nil

	unavailable bool          // though the bridge did not say so
	again       bool          // may be tried again
	after       time.Duration // not before
	whole       bool          // is not of one message alone
}

// Invalid returns the *Error of a message that is refused before it is sent.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: codeInvalid, Field: field, Message: field + ": " + fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	text := "delaybridge: " + e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.State != "" {
		text += ", it is " + string(e.State)
	}
	if e.Code != "" {
		text += " [" + e.Code + "]"
	}
	if e.Unknown && e.Code != codeUnknown {
		text += "; it may have been done anyway"
	}
	return text
}

// Is reports whether e is one of this package's errors.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnknown:
		return e.Unknown
	case ErrUnavailable:
		return !e.Unknown && (e.unavailable || e.oneOf(codeUnavailable, "busy", "store_full", "internal", "request_timeout", "too_many_requests"))
	case ErrInvalid:
		return e.oneOf(codeInvalid, codeMalformed, codeTooLarge, "headers_too_large", "bad_cursor")
	case ErrConflict:
		return e.Code == codeConflict
	case ErrNotFound:
		return e.Code == "not_found"
	case ErrTooLate:
		return e.Code == codeTooLate
	case ErrAmbiguous:
		return e.Code == "ambiguous"
	case ErrUnauthorized:
		return e.Code == "unauthorized"
	}
	return false
}

func (e *Error) oneOf(codes ...string) bool { return slices.Contains(codes, e.Code) }

// Unwrap returns the error of the network or the context.
func (e *Error) Unwrap() error { return e.Err }

// BatchError has one entry per message of a batch, in order: nil, or the *Error of a
// message that failed.
type BatchError []error

// Error reports how many messages failed, and the first error.
func (b BatchError) Error() string {
	failed := b.Unwrap()
	if len(failed) == 0 {
		return "delaybridge: no message failed"
	}
	first := strings.TrimPrefix(failed[0].Error(), "delaybridge: ")
	return fmt.Sprintf("delaybridge: %d of %d messages failed, the first: %s", len(failed), len(b), first)
}

// Unwrap returns the errors of the failed messages, for errors.Is and errors.As.
func (b BatchError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone([]error(b)), func(err error) bool { return err == nil })
}
