package grpclistener

import (
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

// statusOf says f in gRPC. details are not changed.
func statusOf(f apierror.Error, more details) error {
	info := &errdetails.ErrorInfo{Reason: f.Code, Domain: errorDomain, Metadata: more}
	details := []protoadapt.MessageV1{info}
	if f.Field != "" {
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

// publishError says why a message was not accepted.
func publishError(r core.Receipt) error {
	f := apierror.Of(r.Err)
	known := details{"stored": outcome(f.Code)}
	if f.Code == apierror.Unknown || f.Code == apierror.Conflict {
		known["id"], known["sink"] = r.ID, r.Sink
	}
	return statusOf(f, known)
}

// changeError says why a stored message was not changed.
func changeError(r core.Receipt, err error) error {
	f := apierror.Of(err)
	known := details{"changed": outcome(f.Code)}
	if f.Code == apierror.TooLate {
		known["state"] = string(r.State)
	}
	return statusOf(f, known)
}

// lookError says why nothing was found.
func lookError(err error) error { return statusOf(apierror.Of(err), nil) }
