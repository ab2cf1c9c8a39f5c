package grpclistener

import (
	"maps"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// errorDomain is the domain of every ErrorInfo.
const errorDomain = "delaybridge"

// details are the metadata of an ErrorInfo.
type details map[string]string

// What can be said of a call whatever it was to do.
var (
	nothingDone    = details{"stored": "false", "changed": "false"}
	outcomeUnknown = details{"stored": "unknown", "changed": "unknown"}
)

// statusOf says f in gRPC, whose field is a path in the request. more is not changed.
func statusOf(f apierror.Error, more details) error {
	info := &errdetails.ErrorInfo{Reason: f.Code, Domain: errorDomain, Metadata: make(details, len(more)+1)}
	maps.Copy(info.Metadata, more)
	details := []protoadapt.MessageV1{info}
	if f.Field != "" {
		info.Metadata["field"] = f.Field
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: f.Field, Description: f.Detail, Reason: f.Code},
		}})
	}
	if wait := apierror.RetryAfter(f.Code); wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	s, err := status.New(codeOf(f.Code), f.Detail).WithDetails(details...)
	if err != nil {
		panic(err) // not OK, and details that can be marshalled
	}
	return s.Err()
}

// inRequest is the apierror.Error of err, whose field path makes a path in the request.
func inRequest(err error, path func(field string) string) apierror.Error {
	f := apierror.Of(err)
	if field := f.Field; field != "" {
		f.Field = path(field)
		f.Detail = f.Field + strings.TrimPrefix(f.Detail, field)
	}
	return f
}

// codeOf is the gRPC code of one of package failure.
func codeOf(code string) codes.Code {
	switch code {
	case apierror.Invalid, apierror.BadCursor:
		return codes.InvalidArgument
	case apierror.Unauthorized:
		return codes.Unauthenticated
	case apierror.NotFound:
		return codes.NotFound
	case apierror.Conflict:
		return codes.AlreadyExists
	case apierror.TooLate, apierror.Ambiguous:
		return codes.FailedPrecondition
	case apierror.TooLarge, apierror.Headers, apierror.Full, apierror.TooMany, apierror.Busy:
		return codes.ResourceExhausted
	case apierror.NotSupported:
		return codes.Unimplemented
	case apierror.Unavailable:
		return codes.Unavailable
	case apierror.Timeout:
		return codes.DeadlineExceeded
	case apierror.Internal:
		return codes.Internal
	}
	return codes.Unknown
}

// outcome reports what a call that ended with the code has left behind.
func outcome(code string) string {
	if code == apierror.Unknown {
		return "unknown"
	}
	return "false"
}

// publishError says why the only message of a request was not accepted.
func publishError(r core.Receipt) error {
	f := inRequest(r.Err, func(field string) string { return "messages[0]." + field })
	known := details{"stored": outcome(f.Code)}
	if f.Code == apierror.Unknown || f.Code == apierror.Conflict {
		known["id"], known["sink"] = r.ID, r.Sink
	}
	return statusOf(f, known)
}

// changeError says why a stored message was not changed.
func changeError(r core.Receipt, err error) error {
	f := inRequest(err, refPath)
	known := details{"changed": outcome(f.Code)}
	if f.Code == apierror.TooLate {
		known["state"] = string(r.State)
	}
	return statusOf(f, known)
}
