package grpcdoor

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/failure"
)

// errorDomain is the domain of every ErrorInfo.
const errorDomain = "delaybridge"

// facts are the metadata of an ErrorInfo.
type facts map[string]string

// What can be said of a call whatever it was to do.
var (
	nothingDone    = facts{"stored": "false", "changed": "false"}
	outcomeUnknown = facts{"stored": "unknown", "changed": "unknown"}
)

// statusOf says f in gRPC. facts are not changed.
func statusOf(f failure.Failure, more facts) error {
	info := &errdetails.ErrorInfo{Reason: f.Code, Domain: errorDomain, Metadata: more}
	details := []protoadapt.MessageV1{info}
	if f.Field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: f.Field, Description: f.Detail, Reason: f.Code},
		}})
	}
	if wait := failure.RetryAfter(f.Code); wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	s, err := status.New(codeOf(f.Code), f.Detail).WithDetails(details...)
	if err != nil {
		panic(err) // not OK, and details that can be marshalled
	}
	return s.Err()
}

// codeOf is the gRPC code of one of package failure.
func codeOf(code string) codes.Code {
	switch code {
	case failure.Invalid, failure.BadCursor:
		return codes.InvalidArgument
	case failure.Unauthorized:
		return codes.Unauthenticated
	case failure.NotFound:
		return codes.NotFound
	case failure.Conflict:
		return codes.AlreadyExists
	case failure.TooLate, failure.Ambiguous:
		return codes.FailedPrecondition
	case failure.TooLarge, failure.Headers, failure.Full, failure.TooMany, failure.Busy:
		return codes.ResourceExhausted
	case failure.NotSupported:
		return codes.Unimplemented
	case failure.Unavailable:
		return codes.Unavailable
	case failure.Timeout:
		return codes.DeadlineExceeded
	case failure.Internal:
		return codes.Internal
	}
	return codes.Unknown
}

// outcome tells what a call that ended with the code has left behind.
func outcome(code string) string {
	if code == failure.Unknown {
		return "unknown"
	}
	return "false"
}

// publishError says why a message was not accepted.
func publishError(r core.Receipt) error {
	f := failure.Of(r.Err)
	known := facts{"stored": outcome(f.Code)}
	if f.Code == failure.Unknown || f.Code == failure.Conflict {
		known["id"], known["sink"] = r.ID, r.Sink
	}
	return statusOf(f, known)
}

// changeError says why a stored message was not changed.
func changeError(r core.Receipt, err error) error {
	f := failure.Of(err)
	known := facts{"changed": outcome(f.Code)}
	if f.Code == failure.TooLate {
		known["state"] = string(r.State)
	}
	return statusOf(f, known)
}

// lookError says why nothing was found.
func lookError(err error) error { return statusOf(failure.Of(err), nil) }
